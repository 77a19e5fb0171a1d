"""One case, run on every side and compared: what a campaign does for each case, and a finding's evidence for a few more."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial

from difftest.campaign.campaign import ORACLE, Campaign, Run, attempt
from difftest.cases.case import Case
from difftest.errors import InfrastructureError, UnsupportedError
from difftest.judge.comparator import Comparison, compare, with_arbiter
from difftest.judge.noise import SAMPLES_VARIABLE, SAMPLES_WHEN_IN_DOUBT
from difftest.judge.outcome import Outcome

IN_DOUBT = {SAMPLES_VARIABLE: str(SAMPLES_WHEN_IN_DOUBT)}
"""What the oracle is run with before a mismatch is believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One case, run on every backend that supports it, and compared. `trouble` is what infrastructure failed at, `lost` how many runs."""

    index: int
    case: Case
    runs: Mapping[str, Run] = field(default_factory=dict)
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    trouble: str = ""
    lost: int = 0


def examine(campaign: Campaign, index: int, case: Case) -> Examined:
    """Runs one case on the oracle and on every backend that supports it, and compares.

    What infrastructure fails on one backend does not take the others' runs along.
    """
    asked = [name for name, backend in campaign.backends.items() if not backend.unsupported(case)]
    try:
        truth, (ran, lost) = attempt(campaign, case, ORACLE), _taken(campaign, case, asked)
        if lost and not ran:
            return Examined(index=index, case=case, trouble=lost[0])
        runs, sides = {ORACLE: truth, **ran}, {name: campaign.backends[name].SIDE for name in ran}
        twice = campaign.twice_every > 0 and index % campaign.twice_every == 0
        again = {name: attempt(campaign, case, name).outcome for name in sides if twice}
        comparisons = compare_all(campaign, case, runs, sides, again)
    except InfrastructureError as error:
        return Examined(index=index, case=case, trouble=str(error))
    arbitrated, trouble = with_arbiter(comparisons, sides), "; ".join(dict.fromkeys(lost))
    return Examined(
        index=index, case=case, runs=runs, comparisons=arbitrated, trouble=trouble, lost=len(lost)
    )


def _taken(campaign: Campaign, case: Case, asked: Iterable[str]) -> tuple[dict[str, Run], list[str]]:
    """The runs of a case by backend, without those whose worker's packages do not support it, and what infrastructure failed at."""
    ran, lost = dict[str, Run](), list[str]()
    for name in asked:
        try:
            ran[name] = attempt(campaign, case, name)
        except UnsupportedError:
            continue
        except InfrastructureError as error:
            lost.append(str(error))
    return ran, lost


def compare_all(
    campaign: Campaign,
    case: Case,
    runs: Mapping[str, Run],
    sides: Mapping[str, str],
    again: Mapping[str, Outcome],
) -> dict[str, Comparison]:
    """Compares every run with the oracle's and, where there is one, with the same run `again`."""

    @cache
    def in_doubt() -> Outcome:
        return attempt(campaign, case, ORACLE, IN_DOUBT).outcome

    def compared(name: str, side: str, truth: Outcome) -> Comparison:
        return compare(case, name, side, truth, runs[name].outcome, again.get(name))

    return {
        name: believed(partial(compared, name, side), runs[ORACLE].outcome, in_doubt)
        for name, side in sides.items()
    }


def believed(
    compared: Callable[[Outcome], Comparison], truth: Outcome, in_doubt: Callable[[], Outcome]
) -> Comparison:
    """A run `compared` with the oracle's `truth`; where it mismatches, with an oracle that knows its noise better."""
    comparison = compared(truth)
    return compared(in_doubt()) if _mismatches(comparison) else comparison


def _mismatches(comparison: Comparison) -> bool:
    return any(divergence.ratio is not None for divergence in comparison.divergences)

"""One case, run on every side and compared."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial

from difftest.campaign.campaign import ORACLE, BackendRun, Campaign, run_backend
from difftest.cases.case import Case
from difftest.errors import InfrastructureError, UnsupportedError
from difftest.judge.comparator import Comparison, compare, with_arbiter
from difftest.judge.noise import SAMPLES_VARIABLE, SAMPLES_WHEN_IN_DOUBT
from difftest.judge.outcome import Outcome

MORE_SAMPLES = {SAMPLES_VARIABLE: str(SAMPLES_WHEN_IN_DOUBT)}
"""The oracle's options for a better estimate of the rounding noise; a mismatch counts only if it persists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case after it ran on the oracle and on every backend that supports it, and was compared.

    `runs` and `comparisons` are by backend. `trouble` is what the infrastructure failed at, in words; `lost`
    counts the runs that this cost.
    """

    index: int
    case: Case
    runs: Mapping[str, BackendRun] = field(default_factory=dict)
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    trouble: str = ""
    lost: int = 0


def run_case(campaign: Campaign, index: int, case: Case) -> CaseResult:
    """Runs one case on the oracle and on every backend that supports it, and compares.

    Where the infrastructure fails on one backend, the other backends' runs are kept.
    """
    able = [name for name, backend in campaign.backends.items() if not backend.unsupported(case)]
    try:
        truth, (candidates, errors) = run_backend(campaign, case, ORACLE), _run_all(campaign, case, able)
        if errors and not candidates:
            return CaseResult(index=index, case=case, trouble=errors[0])
        runs, sides = (
            {ORACLE: truth, **candidates},
            {name: campaign.backends[name].SIDE for name in candidates},
        )
        twice = campaign.twice_every > 0 and index % campaign.twice_every == 0
        repeated = {name: run_backend(campaign, case, name).outcome for name in sides if twice}
        comparisons = compare_all(campaign, case, runs, sides, repeated)
    except InfrastructureError as error:
        return CaseResult(index=index, case=case, trouble=str(error))
    arbitrated, trouble = with_arbiter(comparisons, sides), "; ".join(dict.fromkeys(errors))
    return CaseResult(
        index=index, case=case, runs=runs, comparisons=arbitrated, trouble=trouble, lost=len(errors)
    )


def _run_all(
    campaign: Campaign, case: Case, backends: Iterable[str]
) -> tuple[dict[str, BackendRun], list[str]]:
    """The runs of a case by backend, and the infrastructure's errors.

    A backend that the worker's packages turn out not to support is in neither.
    """
    runs, errors = dict[str, BackendRun](), list[str]()
    for name in backends:
        try:
            runs[name] = run_backend(campaign, case, name)
        except UnsupportedError:
            continue
        except InfrastructureError as error:
            errors.append(str(error))
    return runs, errors


def compare_all(
    campaign: Campaign,
    case: Case,
    runs: Mapping[str, BackendRun],
    sides: Mapping[str, str],
    repeated: Mapping[str, Outcome],
) -> dict[str, Comparison]:
    """Compares every backend in `sides` with the oracle, and with its `repeated` run if it has one."""

    @cache
    def precise_truth() -> Outcome:
        return run_backend(campaign, case, ORACLE, MORE_SAMPLES).outcome

    def compared(name: str, side: str, truth: Outcome) -> Comparison:
        return compare(case, name, side, truth, runs[name].outcome, repeated.get(name))

    return {
        name: confirmed(partial(compared, name, side), runs[ORACLE].outcome, precise_truth)
        for name, side in sides.items()
    }


def confirmed(
    compare_with: Callable[[Outcome], Comparison], truth: Outcome, precise_truth: Callable[[], Outcome]
) -> Comparison:
    """A run compared with the oracle's `truth`; where it mismatches, compared again with `precise_truth`.

    `precise_truth` runs the oracle with `MORE_SAMPLES`, and so knows its rounding noise better.
    """
    comparison = compare_with(truth)
    return compare_with(precise_truth()) if _mismatches(comparison) else comparison


def _mismatches(comparison: Comparison) -> bool:
    return any(divergence.ratio is not None for divergence in comparison.divergences)

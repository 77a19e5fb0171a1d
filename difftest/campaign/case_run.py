"""Cases, run on every side and compared."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from difftest.campaign.campaign import ORACLE, BackendRun, Campaign
from difftest.campaign.confirmation import PreciseTruth, Samples, Truths, confirmed
from difftest.campaign.groups import run_each, sharing
from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError, NoTimeError, UnsupportedError
from difftest.judge import canary
from difftest.judge.comparator import Comparison, compare, with_arbiter
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Outcome, Trace
from difftest.records.observation import LOST, REFUSED, UNSUPPORTED

POSTPONED = "postponed"
"""The status of a comparison for which there was no time: its case has no line of it, and runs again."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A comparison that was not made.

    `status` is `lost` where the infrastructure failed, `unsupported` where the backend cannot express the
    case, `refused` where the worker's packages cannot run it, and `postponed` where there was no time.
    """

    status: str
    reason: str

    @property
    def verdict(self) -> str:
        """`lost` or `unsupported`."""
        return LOST if self.status == LOST else UNSUPPORTED


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case after it ran on the oracle and on every backend that supports it, and was compared.

    `runs`, without their tensors, `comparisons` and `missing` are by backend: every backend of the campaign
    is in one of the last two. `trouble` is what the infrastructure failed at, in words. `truths` are the
    oracle's runs with their tensors by their samples, None for the usual ones; none where all agrees.
    """

    index: int
    case: Case
    runs: Mapping[str, BackendRun] = field(default_factory=dict)
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    missing: Mapping[str, Missing] = field(default_factory=dict)
    trouble: str = ""
    truths: Mapping[Samples | None, Outcome] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """How many comparisons the infrastructure lost."""
        return sum(ending.status == LOST for ending in self.missing.values())

    @property
    def counted_runs(self) -> int:
        """How many runs there were: the oracle's, and those that a backend made with what it has."""
        unable = sum(comparison.verdict == UNSUPPORTED for comparison in self.comparisons.values())
        return len(self.runs) - unable

    @property
    def postponed(self) -> bool:
        """Whether there was no time for one of its comparisons."""
        return any(ending.status == POSTPONED for ending in self.missing.values())

    def first_divergences(self) -> Iterator[Divergence]:
        """What each run showed first, which is what becomes a finding."""
        for comparison in self.comparisons.values():
            yield from comparison.divergences[:1]


def run_group(campaign: Campaign, cases: Sequence[tuple[int, Case]]) -> list[CaseResult]:
    """Runs cases with their indices on the oracle and on every backend that supports them, and compares each.

    Where the infrastructure fails on one backend, the other backends' runs are kept.
    """
    members = [_Member(campaign, index, case) for index, case in cases]
    for (member, _), truth in _runs(campaign, [(member, ORACLE) for member in members]):
        if isinstance(truth, InfrastructureError):
            member.lose(truth)
        else:
            member.runs[ORACLE] = truth
    for names in sharing(campaign):
        able = [(member, name) for member in members for name in names if name in member.still_able()]
        for (member, name), run in _runs(campaign, able):
            member.keep(name, run)
        twice = [(member, name) for member, name in able if member.twice and name not in member.missing]
        for (member, name), run in _runs(campaign, twice):
            member.keep(name, run, again=True)
    return [_compared(campaign, member) for member in members]


class _Member:
    """What was recorded of one of the cases: its runs, the repeated ones, and those that are missing."""

    def __init__(self, campaign: Campaign, index: int, case: Case) -> None:
        self.index, self.case = index, case
        backends = campaign.running(case)
        refusals = {name: backend.unsupported(case) for name, backend in backends.items()}
        self.missing = {name: Missing(UNSUPPORTED, reason) for name, reason in refusals.items() if reason}
        self.able = [name for name in backends if name not in self.missing]
        self.twice = campaign.twice_every > 0 and index % campaign.twice_every == 0
        self.runs, self.repeated, self.lost = dict[str, BackendRun](), dict[str, Outcome](), ""

    def still_able(self) -> list[str]:
        """The backends that run the case and are not missing yet."""
        return [name for name in self.able if name not in self.missing]

    def lose(self, error: InfrastructureError) -> None:
        """Records that the oracle's run could not be had."""
        self.lost = "" if isinstance(error, NoTimeError) else str(error)
        lost = Missing(LOST, f"the oracle's run was lost: {error}")
        self.missing |= dict.fromkeys(self.able, lost if self.lost else _missing(error))

    def keep(self, name: str, run: BackendRun | InfrastructureError, *, again: bool = False) -> None:
        """Records a run on a backend, or that it is missing."""
        if isinstance(run, InfrastructureError):
            self.missing[name] = _missing(run)
        elif again:
            self.repeated[name] = run.outcome
        else:
            self.runs[name] = run


def _runs(
    campaign: Campaign, wanted: Sequence[tuple[_Member, str]]
) -> Iterable[tuple[tuple[_Member, str], BackendRun | InfrastructureError]]:
    """The members and backends with their runs."""
    runs = run_each(campaign, [(member.case, name) for member, name in wanted])
    return zip(wanted, runs, strict=True)


def _compared(campaign: Campaign, member: _Member) -> CaseResult:
    """The result of a case that ran."""
    result = CaseResult(index=member.index, case=member.case, missing=member.missing, trouble=member.lost)
    if ORACLE not in member.runs:
        return result
    comparisons = dict[str, Comparison]()
    truths = Truths(campaign, member.case)
    compared = comparing(campaign, member.case, member.runs, member.repeated, truths)
    for name in member.still_able():
        try:
            comparisons[name] = _watched(campaign, member, name, compared(name))
        except InfrastructureError as error:
            member.missing[name] = _missing(error)
    if any(comparison.divergences for comparison in comparisons.values()):
        usual = member.runs[ORACLE].outcome
        result = dataclasses.replace(result, truths={None: usual, **truths.made})
    return _result(campaign, result, member.runs, comparisons)


def _watched(campaign: Campaign, member: _Member, name: str, comparison: Comparison) -> Comparison:
    """The comparison with what the canary of the run showed, if it has one: it agrees, and it is its turn."""
    truth, actual = member.runs[ORACLE].outcome, member.runs[name].outcome
    if not (isinstance(truth, Trace) and isinstance(actual, Trace)):
        return comparison
    if comparison.verdict != "agree" or not canary.is_due(member.index):
        return comparison
    side = campaign.backends[name].SIDE
    return dataclasses.replace(
        comparison, canary=canary.watch(member.case, name, side, truth, actual, member.index)
    )


def _missing(error: InfrastructureError) -> Missing:
    if isinstance(error, NoTimeError):
        return Missing(POSTPONED, str(error))
    return Missing(REFUSED if isinstance(error, UnsupportedError) else LOST, str(error))


def _result(
    campaign: Campaign,
    result: CaseResult,
    runs: Mapping[str, BackendRun],
    comparisons: Mapping[str, Comparison],
) -> CaseResult:
    """The result with the runs that were compared; a case that was lost as a whole has none."""
    sides = {name: campaign.backends[name].SIDE for name in comparisons}
    kept = (ORACLE, *comparisons) if comparisons or not result.lost else ()
    lost = (ending.reason for ending in result.missing.values() if ending.status == LOST)
    return dataclasses.replace(
        result,
        runs={name: runs[name].without_tensors() for name in kept},
        comparisons=with_arbiter(comparisons, sides),
        trouble="; ".join(dict.fromkeys(lost)),
    )


def comparing(
    campaign: Campaign,
    case: Case,
    runs: Mapping[str, BackendRun],
    repeated: Mapping[str, Outcome],
    precise_truth: PreciseTruth,
) -> Callable[[str], Comparison]:
    """A function that compares a backend's run with the oracle's, and with its `repeated` run if it has one.

    It raises `InfrastructureError` where the oracle has to run again, and cannot.
    """

    def compared(name: str, truth: Outcome) -> Comparison:
        side = campaign.backends[name].SIDE
        return compare(case, name, side, truth, runs[name].outcome, repeated.get(name))

    def explained(comparison: Comparison) -> bool:
        return bool(campaign.explanation(comparison.divergences[0], case))

    return lambda name: confirmed(partial(compared, name), runs[ORACLE].outcome, precise_truth, explained)

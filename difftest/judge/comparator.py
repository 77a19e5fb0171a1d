"""The comparator: a candidate's run against the oracle's, through every check, to one verdict."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from difftest.cases.case import Case
from difftest.cases.exactness import inexact
from difftest.judge import checks, programs
from difftest.judge.capability import Lack, findings_and_lacks
from difftest.judge.divergence import Divergence
from difftest.judge.doubts import Doubt, doubt, out_of_range
from difftest.judge.measured import MeasuredRun, Measurement, measure_run
from difftest.judge.noise import FLOORS_MOST
from difftest.judge.outcome import Failure, Outcome, Symptom, Trace, dies
from difftest.judge.pieces import Piece, pieces
from difftest.judge.predictions import with_predictions
from difftest.judge.stage import STAGES
from difftest.judge.subject import subject

LACKING = "unsupported"
"""The verdict where a framework lacks something for a program, and shows nothing else that is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of comparing one run with the oracle's.

    `verdict` is `agree`, `diverge`, `inconclusive`, or `unsupported` for a program for which the framework
    lacks something (`lacks`). The last two have a `reason`; `reason_kind` says it without what differs from
    case to case. `divergences` are in the
    order of the run: the first is the cause, and has the predictions that give its numbers; the rest may be
    its consequences. `measurements` hold every
    tensor at the step where it was farthest off. `pieces` say where the tensor of the first divergence is
    wrong. `device` is what the run was on; empty where it ended before
    it recorded that. `canary` is what the judge made of damaged copies of the run (`difftest.judge.canary`);
    empty where there were none.
    """

    verdict: str
    divergences: tuple[Divergence, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    reason: str = ""
    reason_kind: str = ""
    device: str = ""
    lacks: tuple[Lack, ...] = ()
    pieces: tuple[Piece, ...] = ()
    canary: str = ""

    @property
    def decides(self) -> bool:
        """Whether it says that the run is right or wrong."""
        return self.verdict in {"agree", "diverge"}

    def elsewhere(self, device: str) -> bool:
        """Whether the run was on another device than `device`; False where one of them is unknown (empty)."""
        return len({self.device, device} - {""}) > 1


def compare(  # noqa: PLR0913, PLR0917  a case, its backend, and the runs
    case: Case, backend: str, side: str, expected: Outcome, actual: Outcome, again: Outcome | None = None
) -> Comparison:
    """Compares `actual`, a run of `case` on `backend`, with `expected`, the oracle's run of the same case.

    `again` is the same run repeated, for the checks that take two runs.
    """
    comparison = _without_device(case, backend, side, expected, actual, again)
    return dataclasses.replace(comparison, device=actual.environment.get("device", ""))


def _without_device(  # noqa: PLR0913, PLR0917  as `compare`
    case: Case, backend: str, side: str, expected: Outcome, actual: Outcome, again: Outcome | None
) -> Comparison:
    if case.model.rejects:
        return _rejection(case, backend, side, expected, actual)
    if isinstance(expected, Failure):
        return _oracle_failed(expected)
    if isinstance(actual, Trace) and _numbers(expected) != _numbers(actual):
        unequal = "the two runs were not given the same numbers"
        return _inconclusive(Doubt(unequal, unequal))
    run = measure_run(case, backend, side, expected, actual, again, exact=inexact(case) is None)
    farthest = worst(run.measured.values())
    divergences, leaves_range = divergences_in_order(run), None
    if isinstance(actual, Trace) and not expected.events.in_range and not case.model.is_program:
        divergences = tuple(d for d in divergences if not checks.load(d.check).TRAITS.uses_numbers)
        leaves_range = out_of_range(case.dtype)
    return _concluded(run, divergences, leaves_range or doubt(run, farthest), farthest)


def _concluded(
    run: MeasuredRun,
    divergences: tuple[Divergence, ...],
    reason: Doubt | None = None,
    farthest: tuple[Measurement, ...] = (),
) -> Comparison:
    """The comparison of a run with these divergences; without any, `reason` is why that means nothing."""
    divergences, lacks = findings_and_lacks(run.case, divergences, run.actual)
    if divergences:
        return Comparison(
            verdict="diverge",
            divergences=(with_predictions(run, divergences[0]), *divergences[1:]),
            measurements=farthest,
            lacks=lacks,
            pieces=pieces(run, divergences[0]),
        )
    if lacks:
        return Comparison(
            verdict=LACKING,
            reason=lacks[0].reason,
            reason_kind=lacks[0].reason,
            measurements=farthest,
            lacks=lacks,
        )
    return _inconclusive(reason, farthest) if reason else Comparison(verdict="agree", measurements=farthest)


def _rejection(case: Case, backend: str, side: str, expected: Outcome, actual: Outcome) -> Comparison:
    """The comparison of a run whose arguments torch is to reject: it must end with an exception too."""
    if isinstance(expected, Failure) and dies(expected):
        return _oracle_failed(expected)
    rejection = expected if isinstance(expected, Failure) else None
    run = MeasuredRun(
        case=case,
        backend=backend,
        side=side,
        expected=Trace(steps=()),
        actual=actual,
        measured={},
        rejection=rejection,
    )
    if rejection or (isinstance(actual, Failure) and dies(actual)):
        return _concluded(run, divergences_in_order(run))
    accepts = "the oracle accepts what torch is to reject"
    return _inconclusive(Doubt(accepts, accepts))


def _oracle_failed(expected: Failure) -> Comparison:
    failed = "the oracle failed"
    return _inconclusive(Doubt(failed, f"{failed}: {expected.kind}: {expected.message}"))


def _inconclusive(doubt: Doubt, measurements: tuple[Measurement, ...] = ()) -> Comparison:
    return Comparison(
        verdict="inconclusive", reason=doubt.reason, reason_kind=doubt.kind, measurements=measurements
    )


def _numbers(outcome: Outcome) -> str | None:
    """The digest of the numbers that a run was given; None where it does not give one."""
    return None if isinstance(outcome, Failure) else outcome.environment.get("numbers")


def divergences_in_order(run: MeasuredRun) -> tuple[Divergence, ...]:
    """The divergences of all checks by step and stage; at one step and stage in the order of the checks."""
    loaded = checks.load_all()
    reported = [divergence for check in loaded.values() for divergence in check.check(run)]
    ranks_part = {
        divergence.step for divergence in reported if loaded[divergence.check].TRAITS.compares_ranks
    }
    complete = [
        _with_context(
            divergence,
            ranks_part=divergence.step in ranks_part and not loaded[divergence.check].TRAITS.compares_ranks,
            subject=subject(run.case, divergence),
        )
        for divergence in reported
    ]
    if run.case.model.is_program:
        return programs.in_order(run.case, complete)
    return tuple(sorted(complete, key=lambda divergence: (divergence.step, STAGES.index(divergence.stage))))


def _with_context(divergence: Divergence, *, ranks_part: bool, subject: str) -> Divergence:
    """A mismatch whose nature also says whether ranks part, and whether the first step was right.

    On a reference it begins with what is defined otherwise.
    """
    if divergence.symptom is not Symptom.MISMATCH:
        return divergence
    late = "after the first step" if divergence.step else ""
    words = (subject, divergence.nature, "ranks part" if ranks_part else "", late)
    return msgspec.structs.replace(divergence, nature=", ".join(filter(None, words)))


def worst(measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """One measurement for each tensor: that of the step where it was farthest from the oracle."""
    farthest: dict[tuple[str, str], Measurement] = {}
    for measurement in measurements:
        key = (measurement.stage, measurement.tensor)
        if key not in farthest or measurement.ratio > farthest[key].ratio:
            farthest[key] = measurement
    return tuple(farthest.values())


def with_arbiter(comparisons: Mapping[str, Comparison], sides: Mapping[str, str]) -> dict[str, Comparison]:
    """The comparisons of one case by backend, with the other sides' least error beside each measurement."""
    errors: dict[tuple[str, str], dict[str, float]] = {}
    for backend, comparison in comparisons.items():
        for m in comparison.measurements:
            least, side = errors.setdefault((m.stage, m.tensor), {}), sides[backend]
            least[side] = min(m.error, least.get(side, FLOORS_MOST))
    return {
        backend: _arbitrated(comparison, sides[backend], errors)
        for backend, comparison in comparisons.items()
    }


def _arbitrated(
    comparison: Comparison, own: str, errors: Mapping[tuple[str, str], Mapping[str, float]]
) -> Comparison:
    def other_error(m: Measurement) -> float | None:
        others = [error for side, error in errors[m.stage, m.tensor].items() if side != own]
        return min(others, default=None)

    measured = tuple(msgspec.structs.replace(m, other_error=other_error(m)) for m in comparison.measurements)
    return dataclasses.replace(comparison, measurements=measured)

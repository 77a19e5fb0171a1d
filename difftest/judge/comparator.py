"""The comparator: a candidate's run against the oracle's, through every check, to one verdict."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from difftest import plugins
from difftest.cases.case import Case
from difftest.cases.exactness import inexact
from difftest.judge.divergence import Divergence
from difftest.judge.measured import Measurement, Pair, pair
from difftest.judge.noise import FLOORS_MOST, THRESHOLD
from difftest.judge.outcome import STAGES, Array, Failure, Outcome, Stage, Symptom, Trace

VAGUE = 0.25
"""A floor above this share of a tensor's values leaves nothing to compare."""

NATIVE_MOST = 100.0
"""In floors of the simulated runs alone. The greatest in 69 correct cases was 9.4, and 45 is known of a run of 24 steps."""

LEAST_DENSITY = 0.02
"""A tensor with a smaller share of values other than zero shows nothing."""

CHECKS = "difftest.judge.checks"
WITHOUT_NUMBERS = ("annotation", "determinism", "recompile", "runtime_init", "shape")
"""The checks whose word counts also where the dtype cannot hold the values."""

REPLICAS = "replicas"
"""The check whose word belongs to the nature of what else is wrong in a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What came of comparing one run.

    `divergences` are in the order of the run: the first is the cause, the rest may be its consequences. `verdict` is `agree`, `diverge` or
    `inconclusive`, the latter with its `reason`. `measurements` hold every tensor at the step where it was farthest off. `device` is what
    the run was on; empty where it did not live to tell.
    """

    verdict: str
    divergences: tuple[Divergence, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    reason: str = ""
    device: str = ""

    def elsewhere(self, device: str) -> bool:
        """Whether the run was on another device than `device`; never where one of them is not known."""
        return len({self.device, device} - {""}) > 1


def compare(  # noqa: PLR0913, PLR0917  a case, who ran it, and what came of it
    case: Case, backend: str, side: str, expected: Outcome, actual: Outcome, again: Outcome | None = None
) -> Comparison:
    """Compares `actual`, a run of `case` on `backend`, with the oracle's run of the same case, and with `again`, the same run repeated."""
    told = _judged(case, backend, side, expected, actual, again)
    return dataclasses.replace(told, device=actual.environment.get("device", ""))


def _judged(  # noqa: PLR0913, PLR0917  as `compare`
    case: Case, backend: str, side: str, expected: Outcome, actual: Outcome, again: Outcome | None
) -> Comparison:
    if isinstance(expected, Failure):
        return Comparison(
            verdict="inconclusive", reason=f"the oracle failed: {expected.kind}: {expected.message}"
        )
    if isinstance(actual, Trace) and _numbers(expected) != _numbers(actual):
        return Comparison(verdict="inconclusive", reason="the two runs were not given the same numbers")
    seen = pair(case, backend, side, expected, actual, again, exact=inexact(case) is None)
    farthest = worst(seen.measured.values())
    divergences, reason = first_things_first(seen), ""
    if isinstance(actual, Trace) and not expected.events.get("in_range", True):
        divergences = tuple(divergence for divergence in divergences if divergence.check in WITHOUT_NUMBERS)
        reason = f"values leave the range of {case.dtype}"
    if divergences:
        return Comparison(verdict="diverge", divergences=divergences, measurements=farthest)
    reason = (
        reason
        or _nothing_compared(farthest)
        or _nothing_told(seen)
        or _wide_band(seen)
        or _untrusted(expected, case.dtype)
    )
    return Comparison(verdict="inconclusive" if reason else "agree", reason=reason, measurements=farthest)


def _numbers(outcome: Outcome) -> str | None:
    """The digest of the numbers that a run was given, where it says so."""
    return None if isinstance(outcome, Failure) else outcome.environment.get("numbers")


def first_things_first(seen: Pair) -> tuple[Divergence, ...]:
    """What every check says, in the order of the run; at one step and stage, in the order of the checks."""
    checks = sorted(
        (plugins.load(CHECKS, name) for name in plugins.names(CHECKS)), key=lambda check: check.ORDER
    )
    said = [divergence for check in checks for divergence in check.check(seen)]
    apart = {divergence.step for divergence in said if divergence.check == REPLICAS}
    told = [_natured(divergence, apart=divergence.step in apart) for divergence in said]
    return tuple(sorted(told, key=lambda divergence: (divergence.step, STAGES.index(divergence.stage))))


def _natured(divergence: Divergence, *, apart: bool) -> Divergence:
    """A mismatch with what the rest of the run says of its nature: whether ranks part in the same step, and whether the first was right."""
    if divergence.symptom is not Symptom.MISMATCH:
        return divergence
    parts, late = apart and divergence.check != REPLICAS, divergence.step > 0
    words = (divergence.nature, "ranks part" if parts else "", "after the first step" if late else "")
    return msgspec.structs.replace(divergence, nature=", ".join(filter(None, words)))


def worst(measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """One measurement a tensor: that of the step where it was farthest from the oracle."""
    farthest: dict[tuple[str, str], Measurement] = {}
    for measurement in measurements:
        key = (measurement.stage, measurement.tensor)
        if key not in farthest or measurement.ratio > farthest[key].ratio:
            farthest[key] = measurement
    return tuple(farthest.values())


def with_arbiter(comparisons: Mapping[str, Comparison], sides: Mapping[str, str]) -> dict[str, Comparison]:
    """The comparisons of one case, each measurement beside the other side's least error on the same tensor."""
    errors: dict[tuple[str, str, str], float] = {}
    for backend, comparison in comparisons.items():
        for m in comparison.measurements:
            key = (sides[backend], m.stage, m.tensor)
            errors[key] = min(m.error, errors.get(key, FLOORS_MOST))
    return {
        backend: _arbitrated(comparison, sides[backend], errors)
        for backend, comparison in comparisons.items()
    }


def _arbitrated(
    comparison: Comparison, side: str, errors: Mapping[tuple[str, str, str], float]
) -> Comparison:
    other = "xla" if side == "torch" else "torch"
    measured = tuple(
        msgspec.structs.replace(m, other_error=errors.get((other, m.stage, m.tensor)))
        for m in comparison.measurements
    )
    return dataclasses.replace(comparison, measurements=measured)


def _nothing_told(seen: Pair) -> str:
    """Why agreement of constants would mean nothing: at some stage the oracle has nothing but constants and zeros."""
    stages = dict.fromkeys(stage for step in seen.expected.steps for stage, _ in step)
    for stage in stages:
        tensors = [tensor for step in seen.expected.steps for (at, _), tensor in step.items() if at is stage]
        if not any(_tells(piece) for tensor in tensors for piece in tensor.pieces.values()):
            return f"{stage}: every tensor of the oracle is constant or nearly all zero"
    return ""


def _tells(values: Array) -> bool:
    """Whether values can show a difference: enough of them are not zero, and they are not all the same."""
    dense = np.count_nonzero(values) >= max(1.0, LEAST_DENSITY * values.size)
    return bool(dense and (values.size == 1 or (values != values.flat[0]).any()))


def _wide_band(seen: Pair) -> str:
    """Why a loss curve inside its Monte Carlo band says nothing of convergence: the band ends as wide as the curve is high."""
    loss = seen.measured.get((seen.case.training.steps - 1, Stage.FORWARD, "loss"))
    if not seen.case.data.learnable or loss is None or THRESHOLD * loss.floor <= loss.scale:
        return ""
    return f"step {loss.step}: the loss is {loss.scale:.3g} and rounding alone may move it by {THRESHOLD * loss.floor:.2g}"


def _nothing_compared(measurements: Iterable[Measurement]) -> str:
    """Why agreement would mean nothing, or an empty string."""
    told = [m for m in measurements if m.scale > 0.0]
    if not told:
        return "every tensor compared is zero"
    vague = {m.stage for m in told} - {m.stage for m in told if m.floor <= VAGUE * m.scale}
    stages = ", ".join(stage for stage in STAGES if stage in vague)
    return f"{stages}: rounding noise is as large as the values" if stages else ""


def _untrusted(expected: Trace, dtype: str) -> str:
    """Why the floor may be too high: a fault of torch's own kernels on the CPU is in every floor, and no other noise explains it."""
    native = float(expected.events.get("native", 0.0))
    if native <= NATIVE_MOST:
        return ""
    return (
        f"torch's own run in {dtype} is {native:.3g} times as far from float64 as simulated rounding takes it"
    )

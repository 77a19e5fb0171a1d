"""A candidate's run beside the oracle's, measured tensor by tensor: the input of every check."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import msgspec
import numpy as np
import numpy.typing as npt

from difftest.cases.case import Case
from difftest.cases.layout import ALONE
from difftest.judge import noise
from difftest.judge.divergence import Divergence, identity
from difftest.judge.elements import Bools, errors, near_overflow, overflows_alone
from difftest.judge.events import Events
from difftest.judge.facts import FailureFacts, MismatchFacts, NumbersFacts, Whole
from difftest.judge.noise import FLOORS_MOST
from difftest.judge.open_signs import other_way
from difftest.judge.outcome import Array, Failure, Outcome, Sharded, Symptom, Trace
from difftest.judge.stage import Stage
from difftest.judge.words import numbers

Key: TypeAlias = tuple[int, Stage, str]
"""Step, stage and tensor name."""

Floats: TypeAlias = npt.NDArray[np.float64]


class Measurement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How far one tensor of one run was from the oracle, at the step where it was farthest.

    Of `elements`, `differing` are off by more than rounding. `undecided` ones were left out, because the
    oracle's own runs do not decide them; all else is of the others. `error` is the root mean square of
    (actual - expected), `greatest` the largest absolute difference, `scale` the root mean square of the
    expected values, `floor` that of the rounding noise. `ratio` is the greatest error in units of the floor,
    element by element. `other_error` is the least `error` of another side for the same tensor (the arbiter),
    None where no other side ran. `exact`: the tolerance was zero.
    """

    stage: str
    tensor: str
    step: Whole
    elements: Whole
    differing: Whole
    error: float
    greatest: float
    scale: float
    floor: float
    ratio: float
    exact: bool = False
    other_error: float | None = None
    undecided: Whole = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One run of a candidate, measured against the oracle's trace of the same case.

    `measured` holds a measurement for every tensor of every step that both have whole; it is empty when the
    candidate failed. `again` is a second run of the candidate in fresh processes, None where there was none.
    `near_overflow`: in a program, an element that overflows in the candidate alone may have done so for the
    order of a sum. `rejection`: how the oracle failed at arguments that torch rejects; `expected` then has no
    steps.
    """

    case: Case
    backend: str
    side: str
    expected: Trace
    actual: Outcome
    measured: Mapping[Key, Measurement]
    again: Outcome | None = None
    near_overflow: bool = False
    rejection: Failure | None = None

    @property
    def events(self) -> Events:
        """What the candidate reports besides tensors; nothing of a run that failed."""
        return Events() if isinstance(self.actual, Failure) else self.actual.events

    def truth(self, at: Key) -> tuple[Array, Floats]:
        """A tensor as the oracle has it, whole, and the deviation of each of its elements by rounding."""
        step, stage, name = at
        deviation = self.expected.noise[step][stage, name].full(ALONE)
        return self.expected.steps[step][stage, name].full(ALONE), deviation

    def beside(self, at: Key) -> tuple[Floats, Floats, Sharded]:
        """A measured tensor as the oracle has it, the floors of its rounding, and as the candidate has it."""
        step, stage, name = at
        truth, deviation = self.truth(at)
        actual = cast("Trace", self.actual).steps[step][stage, name]  # what was measured is of no failure
        return truth, noise.floor(deviation, wide=self.wide), actual

    @property
    def wide(self) -> bool:
        """Whether the values of one tensor are of very different magnitudes."""
        return self.case.model.is_program and self.case.data.regime == "extreme"

    def decided(self, truth: Array, deviation: Floats, value: Array) -> Bools:
        """Which elements of a tensor or of a piece are compared with the candidate's `value`."""
        decided = np.isfinite(deviation)
        return decided & ~overflows_alone(truth, value) if self.near_overflow else decided

    def tensor_divergence(  # noqa: PLR0913, PLR0917  what a divergence is made of
        self,
        check: str,
        symptom: Symptom,
        at: Key,
        facts: MismatchFacts,
        ratio: float | None = None,
        nature: str = "",
    ) -> Divergence:
        """A divergence of this run at one tensor."""
        step, stage, tensor = at
        where = {"step": step, "stage": stage, "tensor": tensor}
        return self.divergence(check=check, symptom=symptom, facts=facts, nature=nature, ratio=ratio, **where)

    def failure(self, check: str, failure: Failure, *, again: bool = False) -> Divergence:
        """The divergence of a run that failed; `again`: it was the second run."""
        layers = self.case.model.layers if self.case.model.is_program else ()
        cause = identity(failure, {layer.title for layer in layers})
        facts = FailureFacts(
            kind=failure.kind,
            message=failure.message,
            frame=failure.frame.rpartition("/")[2],
            rank=failure.rank,
            again=again,
        )
        return self.divergence(
            check=check,
            symptom=failure.symptom,
            stage=failure.stage,
            step=failure.step,
            cause=cause,
            operator=failure.operator,
            facts=facts,
            log=failure.log,
        )

    def divergence(self, **fields: Any) -> Divergence:  # noqa: ANN401  the other fields of `Divergence`
        """A divergence of this run."""
        return Divergence(backend=self.backend, side=self.side, path=self.case.path, **fields)

    def tensors(self) -> Iterator[tuple[Key, Sharded]]:
        """The candidate's tensors in the order in which they were recorded; none of a run that failed."""
        if isinstance(self.actual, Failure):
            return
        for step, tensors in enumerate(self.actual.steps):
            for stage, name in tensors:
                yield (step, stage, name), tensors[stage, name]


def measure_run(  # noqa: PLR0913, PLR0917  what MeasuredRun is made of
    case: Case,
    backend: str,
    side: str,
    expected: Trace,
    actual: Outcome,
    again: Outcome | None = None,
    *,
    exact: bool = False,
) -> MeasuredRun:
    """Measures `actual` against `expected`, the oracle's trace of the same case.

    `exact`: no sum of the case rounds, so that nothing may differ.
    """
    near = near_overflow(case, expected)
    run = MeasuredRun(
        case=case,
        backend=backend,
        side=side,
        expected=expected,
        actual=actual,
        measured={},
        again=again,
        near_overflow=near,
    )
    measured = {} if isinstance(actual, Failure) else dict(_measure(run, actual, exact=exact))
    return replace(run, measured=measured)


def beyond(measurement: Measurement) -> bool:
    """Whether an error cannot be rounding: any error where sums are exact, else one above the threshold."""
    return measurement.ratio > (0.0 if measurement.exact else noise.THRESHOLD)


def describe(measurement: Measurement) -> str:
    """One line, in the shape of `torch.testing`'s messages."""
    return numbers(numbers_facts(measurement), measurement.ratio)


def numbers_facts(measurement: Measurement, damage: str = "") -> NumbersFacts:
    """What a measurement says of wrong numbers, whose damage has this word."""
    return NumbersFacts(
        differing=measurement.differing,
        elements=measurement.elements,
        greatest=measurement.greatest,
        scale=measurement.scale,
        floor=measurement.floor,
        exact=measurement.exact,
        damage=damage,
    )


def _measure(run: MeasuredRun, actual: Trace, *, exact: bool) -> Iterator[tuple[Key, Measurement]]:
    mesh = run.case.layout.mesh
    for step, (truths, tensors) in enumerate(zip(run.expected.steps, actual.steps, strict=False)):
        for (stage, name), truth in truths.items():
            tensor = tensors.get((stage, name))
            if tensor is None or tensor.shape != truth.shape or tensor.misfits(mesh):
                continue  # the shape check reports it
            key = (step, stage, name)
            whole, deviation = run.truth(key)
            # copies of gradients and parameters have the same bits, or the replicas check reports them
            copies = tensor.copies(mesh) if stage is Stage.FORWARD else (tensor.full(mesh),)
            each = (_of_copy(run, key, whole, deviation, copy, exact=exact) for copy in copies)
            yield key, max(each, key=lambda measurement: measurement.ratio)


def _of_copy(  # noqa: PLR0913  a tensor, and how it is compared
    run: MeasuredRun, key: Key, whole: Array, deviation: Floats, copy: Array, *, exact: bool
) -> Measurement:
    kept = np.where(run.decided(whole, deviation, copy), deviation, np.inf)
    measured = measure(key, whole, kept, copy, exact=exact, wide=run.wide)
    step, stage, name = key
    if stage is not Stage.UPDATE or exact or run.case.model.is_program or not beyond(measured):
        return measured
    moved = other_way(run.case, run.expected, (step, name), copy)
    return measure(key, whole, np.where(moved, np.inf, kept), copy) if moved.any() else measured


def measure(  # noqa: PLR0913  the arrays, and how they are compared
    at: Key, truth: Array, deviation: Floats, value: Array, *, exact: bool = False, wide: bool = False
) -> Measurement:
    """How far `value` is from `truth` where rounding deviates by `deviation`; all have one shape.

    `at` names the tensor. `exact`: any difference counts as differing. Elements of infinite deviation are
    left out; the scale is that of the finite values. `wide` is as in `noise.floor`.
    """
    step, stage, name = at
    floors = noise.floor(deviation, wide=wide)
    decided = np.isfinite(floors)
    error = np.where(decided, errors(truth, value), 0.0)
    ratio = float(_bounded(noise.in_floors(error, floors)).max(initial=0.0))
    with np.errstate(over="ignore"):
        wrong = error if exact else ~(np.abs(error) <= noise.THRESHOLD * floors)
    return Measurement(
        stage=stage,
        tensor=name,
        step=step,
        elements=int(truth.size),
        differing=int(np.count_nonzero(wrong)),
        error=_rms(error),
        greatest=float(_bounded(np.abs(error)).max(initial=0.0)),
        scale=_rms(truth[decided & np.isfinite(truth)]),
        floor=_rms(floors[decided]) if decided.any() or not decided.size else FLOORS_MOST,
        ratio=ratio,
        exact=exact,
        undecided=int(decided.size - np.count_nonzero(decided)),
    )


def _bounded(values: Floats) -> Floats:
    """The values, with `FLOORS_MOST` for what is not finite; looking first is much faster than replacing."""
    if np.isfinite(values).all():
        return values
    return np.nan_to_num(values, nan=FLOORS_MOST, posinf=FLOORS_MOST, neginf=-FLOORS_MOST)


def _rms(values: Floats) -> float:
    finite = _bounded(values)
    greatest = float(np.abs(finite).max(initial=0.0))
    return greatest * float(np.sqrt(np.mean((finite / greatest) ** 2))) if greatest else 0.0

"""The noise floor: how far rounding alone may separate two correct computations of a tensor.

The oracle runs `SAMPLES` more times with every operation's rounding simulated (`workers.training.perturb`),
and once in the case's own dtype. The root mean square deviation of the simulated runs from the float64 run,
and the deviation of the run in the dtype, make the floor of each element. Where these are greater than the
values of the whole tensor, the floor is `ALIKE` times as high. Errors are measured in units of their floor.

The run in the dtype is needed because rounding to nearest is not random: over many steps its errors can add
up in one direction, where simulated ones cancel. (A run of 24 steps was 45 simulated floors off, on every
backend alike.)
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from difftest.judge.outcome import Array, Sharded, Tensors, Trace
from difftest.judge.stage import Stage

Floats: TypeAlias = npt.NDArray[np.float64]

SAMPLES = 4
"""How many runs with simulated rounding an oracle's floor is made of.

For 99 % of the elements of programs these floors are 0.71 to 1.34 times those of 64 runs, and with eight runs
0.78 to 1.23 times. A mismatch is believed after many more.
"""

SAMPLES_WHEN_IN_DOUBT = 128
"""The number before a mismatch is believed: few samples may miss an update whose sign depends on rounding."""

SAMPLES_VARIABLE = "DIFFTEST_SAMPLES"
"""The environment variable of the oracle's process that sets the number of samples."""

SAMPLED_STEPS_VARIABLE = "DIFFTEST_SAMPLED_STEPS"
"""The environment variable that sets how many steps the samples beyond `SAMPLES` take; all without it."""

OWN_WEIGHT, SHARED_WEIGHT = 8.0, 4.0
"""The weights of an element's own noise and of the tensor's: few samples can miss an element's own."""

SHARED_MOST = 64.0
"""The most that a tensor of very different magnitudes adds to an element's noise, in its own deviations."""

UNIFORM = 3.0
"""The inverse of the variance of a number drawn uniformly from [-1, 1]."""

THRESHOLD = 10.0
"""The greatest error, in floors, that is still called rounding."""

NATIVE_MOST = 100.0
"""The most that torch's own run may be off, in floors of the simulated runs alone.

The greatest in 69 correct cases was 9.4; a correct run of 24 steps was 45 off.
"""


ALIKE = 10.0
"""How much greater rounding may be than simulated in a tensor of which no more than rounding is left.

Equal numbers round alike, and simulated errors are independent: over n equal rows they are up to the root of
n too small. That shows where all else cancels. (The gradient of a query in bfloat16, over 128 rows with equal
keys, was 20 floors off.)
"""


class Precision(NamedTuple):
    """What a dtype holds of a value.

    Its unit roundoff, the magnitude below which XLA on CPU flushes values to zero, and the absolute error of
    subnormal values where it does not.
    """

    roundoff: float
    flushed: float = 0.0
    least: float = 0.0

    def coarser(self, other: "Precision") -> "Precision":
        """What a value keeps that passes through both."""
        return Precision(*map(max, zip(self, other, strict=True)))

    def deviation(self, values: Floats) -> Floats:
        """How far finite values may be from what it holds of them; subnormal ones may be flushed to zero."""
        magnitude = np.abs(values)
        rounded = np.minimum(magnitude, np.maximum(magnitude * self.roundoff / np.sqrt(UNIFORM), self.least))
        return np.where(magnitude < self.flushed, magnitude, rounded)


PRECISIONS = {
    "bfloat16": Precision(2.0**-8, flushed=2.0**-126),
    "float16": Precision(2.0**-11, least=2.0**-25),
    "float32": Precision(2.0**-24, flushed=2.0**-126),
    "float64": Precision(2.0**-53, flushed=2.0**-1022),
    "complex64": Precision(2.0**-24, flushed=2.0**-126),
    "complex128": Precision(2.0**-53, flushed=2.0**-1022),
}
"""By torch's name of a dtype."""

FLOORS_MOST = 1e30
"""Stands for infinity and NaN in measurements, because JSON has neither."""

SQUARABLE = 2.0**400
"""Below this, the square of a float64 is finite; above its inverse, that of its rounding is not zero."""


def spread(  # noqa: PLR0913  the oracle's runs
    truth: Trace,
    samples: Sequence[Trace],
    native: Trace,
    roundoff: float,
    *,
    by_element: bool = False,
    flushed: Sequence[Trace] = (),
) -> tuple[tuple[Tensors, ...], float]:
    """By step and tensor, how far rounding moves each element of `truth`; and how far `native` is off.

    `samples` are runs with simulated rounding, some of which may have fewer steps; `native` is one run in the
    dtype under test. They have the tensors of `truth`. `roundoff` is the dtype's unit roundoff: no element's
    deviation is less than that of representing it. The second result is in units of the floor that `samples`
    alone give.

    `by_element` (programs): values need not be finite. A deviation is infinite where these runs do not decide
    what a correct computation gives, see `undecided`, or `native` is more than `NATIVE_MOST` floors off.
    Where `native` is so at most elements of a tensor, all of them count as undecided.
    `flushed` are further runs of a program, with zeros in place of subnormal operands; their deviations count
    in full, as that of `native` does.
    """
    steps, greatest = list[Tensors](), 0.0
    for step, tensors in enumerate(truth.steps):
        deviations, precision = {}, _coarsest(native.steps[step], roundoff)
        for key, exact in tensors.items():
            runs = [sample.steps[step].get(key) for sample in samples if step < len(sample.steps)]
            own = native.steps[step].get(key)
            if by_element:
                others = [own, *(zeros.steps[step].get(key) for zeros in flushed)]
                deviation, farthest = _by_element(exact, runs, others, precision)
            else:
                deviation, farthest = _by_tensor(exact, runs, own, roundoff)
            greatest = max(greatest, farthest)
            deviations[key] = replace(exact, pieces={0: deviation})
        if by_element:
            _leave_open_losses(tensors, deviations)
        steps.append(deviations)
    return tuple(steps), greatest


def _leave_open_losses(tensors: Tensors, deviations: dict[tuple[Stage, str], Sharded]) -> None:
    """A program's loss that is not finite is undecided where a result is: no NaN says of what it came."""
    at = Stage.FORWARD, "loss"
    open_results = (np.isinf(one.pieces[0]).any() for (stage, _), one in deviations.items() if stage is at[0])
    if at in tensors and not np.isfinite(tensors[at].pieces[0]).all() and any(open_results):
        deviations[at] = replace(deviations[at], pieces={0: np.full_like(deviations[at].pieces[0], np.inf)})


def _by_tensor(
    exact: Sharded, runs: Sequence[Sharded | None], native: Sharded | None, roundoff: float
) -> tuple[Floats, float]:
    """The deviation of every element of one tensor, and how far `native` is off."""
    samples, own = [run.pieces[0] for run in runs if run], native.pieces[0] if native else np.nan
    simulated = _simulated(exact.pieces[0], samples, roundoff)
    off = own - exact.pieces[0]
    deviation = np.asarray(np.sqrt(simulated + off**2))
    if np.sum(deviation**2) > np.sum(exact.pieces[0] ** 2):
        deviation *= ALIKE
    return deviation, _farthest(off, simulated)


def _by_element(
    exact: Sharded,
    samples: Sequence[Sharded | None],
    others: Sequence[Sharded | None],
    precision: Precision,
) -> tuple[Floats, float]:
    """As `_by_tensor`, for a program's tensor, whose elements are decided one by one.

    `others` are the tensor in the dtype under test, and then with subnormal operands flushed.
    """
    value = exact.pieces[0]
    runs = [run.pieces[0] for run in (*others, *samples) if run and run.pieces[0].shape == value.shape]
    if len(runs) < len(others) + len(samples):
        return np.full(value.shape, np.inf), 0.0  # how many elements there are depends on rounding
    unclear = undecided(exact, runs)
    if exact.is_discrete:
        return np.where(unclear, np.inf, 0.0), 0.0
    left_out = unclear | ~np.isfinite(value)
    kept = np.where(left_out, 0.0, value)
    unit = _unit(kept)
    off, *rest = (np.where(left_out, 0.0, run - kept) / unit for run in runs)
    flushed, moved = rest[: len(others) - 1], rest[len(others) - 1 :]
    simulated = np.asarray(sum(one**2 for one in moved) / len(moved))
    simulated = np.maximum(simulated, (precision.deviation(kept) / unit) ** 2)  # the last rounding is in both
    missed = in_floors(off, floor(np.sqrt(simulated))) > NATIVE_MOST
    if np.count_nonzero(missed) > np.count_nonzero(~left_out) / 2:
        missed = np.ones_like(missed)  # the others are near by chance: how it rounds is not simulated
    deviation = np.sqrt(simulated + off**2 + sum(one**2 for one in flushed)) * unit
    return np.where(unclear | missed, np.inf, deviation), _farthest(off, simulated)


def _coarsest(native: Tensors, roundoff: float) -> Precision:
    """What the values of a program keep: they may pass through the coarsest of its dtypes, and back."""
    own = (PRECISIONS[tensor.dtype] for tensor in native.values() if tensor.dtype in PRECISIONS)
    return reduce(Precision.coarser, own, Precision(roundoff))


def undecided(exact: Sharded, runs: Sequence[Array]) -> npt.NDArray[np.bool_]:
    """Of which elements one correct computation may give another kind of value than the next.

    `runs` have the tensor in further runs of the oracle, the first in the dtype under test. That is so where
    one run is finite and another is not, as beside a pole or where the dtype overflows; where integers or
    booleans differ; and where the sign of a zero does in the dtype.
    """
    value, native = exact.pieces[0], runs[0]
    if exact.is_discrete:
        return np.asarray(np.any([run != value for run in runs], axis=0))
    signs = (value == 0) & (native == 0) & (np.signbit(value) != np.signbit(native))
    return np.asarray(np.any([~same_kind(value, run) for run in runs], axis=0) | signs)


def same_kind(one: Array, other: Array) -> npt.NDArray[np.bool_]:
    """Where both are finite, both NaN, or both the same infinity."""
    finite = np.isfinite(one) & np.isfinite(other)
    return np.asarray(finite | (np.isnan(one) & np.isnan(other)) | (one == other))


def finite(trace: Trace) -> bool:
    """Whether every value of a trace is finite."""
    return all(
        bool(np.isfinite(piece).all())
        for step in trace.steps
        for tensor in step.values()
        for piece in tensor.pieces.values()
    )


def floor(deviation: Floats, *, wide: bool = False) -> Floats:
    """The floor of every element: its own deviation, drawn towards the root mean square of the whole tensor.

    Infinite where the element's deviation is infinite or NaN: the tensor's is that of the other elements.
    `wide`: the values are of very different magnitudes, so that the tensor's noise says little of an
    element's, which then limits it.
    """
    decided = np.isfinite(deviation)
    kept = deviation if decided.all() else np.where(decided, deviation, 0.0)
    unit = _unit(kept)
    square = (kept / unit) ** 2
    shared = square.sum() / max(1, np.count_nonzero(decided))
    if wide:
        shared = np.where(square > 0.0, np.minimum(shared, SHARED_MOST**2 * square), shared)
    with np.errstate(over="ignore"):
        floors = unit * np.sqrt((OWN_WEIGHT * square + SHARED_WEIGHT * shared) / (OWN_WEIGHT + SHARED_WEIGHT))
    return np.asarray(np.where(decided, floors, np.inf))


def _unit(values: Floats) -> float:
    """What values are divided by before they are squared: 1, or a power of two if squares leave float64."""
    greatest = float(np.abs(values).max(initial=0.0))
    squarable = greatest == 0.0 or 1.0 / SQUARABLE < greatest < SQUARABLE
    return 1.0 if squarable else math.ldexp(1.0, math.frexp(greatest)[1] - 1)


def in_floors(error: Floats, floors: Floats) -> Floats:
    """Absolute errors in units of the floor; where the floor is 0 (nothing rounds), any error is infinite."""
    magnitude = np.abs(error)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where((magnitude == 0) | np.isinf(floors), 0.0, magnitude / floors)


def _farthest(off: Floats, simulated: Floats) -> float:
    ratios = in_floors(off, floor(np.sqrt(simulated)))
    return float(np.nan_to_num(ratios, nan=0.0, posinf=FLOORS_MOST).max(initial=0.0))


def _simulated(exact: Array, samples: Sequence[Array], roundoff: float) -> Floats:
    """The variance of every element over the simulated runs, plus that of representing it."""
    moved = sum((sample - exact) ** 2 for sample in samples) / len(samples)
    return np.asarray(moved + (roundoff * exact) ** 2 / UNIFORM)

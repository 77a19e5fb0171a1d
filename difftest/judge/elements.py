"""Element by element: how far a value is from the oracle's, and of what kind it is.

The oracle of a program need not be finite. Then NaN and each infinity must be where the oracle has them, save
for the elements that its runs do not decide: their deviation is infinite (`difftest.judge.noise.undecided`).
"""

import numpy as np
import numpy.typing as npt

from difftest.cases.case import Case
from difftest.judge.noise import Floats
from difftest.judge.outcome import Array, Sharded, Trace

Bools = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.int64]

NEAR_OVERFLOW = {
    dtype: most / 4
    for dtype, most in {
        "bfloat16": (2.0 - 2.0**-7) * 2.0**127,
        "float16": 65504.0,
        "float32": float(np.finfo(np.float32).max),
        "float64": float(np.finfo(np.float64).max),
    }.items()
}
"""By dtype the magnitude from which sums may overflow in one order and not in another."""

KINDS = ("numbers", "infinity", "minus infinity", "NaN")
"""What a value may be."""


def errors(truth: Array, value: Array) -> Floats:
    """`value` - `truth`; 0 where both are NaN or the same infinity, and never 0 where they differ."""
    with np.errstate(invalid="ignore", over="ignore"):
        equal = (value == truth) | (np.isnan(value) & np.isnan(truth))
        difference = np.asarray(value, np.float64) - np.asarray(truth, np.float64)
    # integers above 2**53 may differ by less than float64 shows
    return np.where(equal, 0.0, np.where(difference == 0.0, 1.0, difference))


def kinds(values: Array) -> Kinds:
    """The kind of every element, as a number into `KINDS`."""
    return np.where(np.isnan(values), 3, np.where(np.isfinite(values), 0, np.where(values > 0, 1, 2)))


def near_overflow(case: Case, expected: Trace) -> bool:
    """Whether a program comes so near the greatest number of a dtype that the order of a sum may matter."""
    if not case.model.is_program:
        return False
    dtypes = {
        **case.model.dtypes(case.dtype),
        **{name: fact.dtype for name, fact in expected.events.facts.items()},
    }
    return not expected.events.in_range or any(
        _greatest(tensor) >= NEAR_OVERFLOW.get(dtypes.get(name, case.dtype), np.inf)
        for step in expected.steps
        for (_, name), tensor in step.items()
    )


def _greatest(tensor: Sharded) -> float:
    return max(
        float(np.abs(piece, where=np.isfinite(piece), out=np.zeros(piece.shape)).max(initial=0.0))
        for piece in tensor.pieces.values()
    )


def overflows_alone(truth: Array, value: Array) -> Bools:
    """The elements of a program that comes near overflow which overflow in the candidate alone."""
    return np.asarray(np.isfinite(truth) & ~np.isfinite(value))

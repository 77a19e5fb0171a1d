"""The values of a program's operands, made by numpy from the case's seed alone.

Every value is one that the operand's dtype holds, so that all backends start from equal tensors.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from difftest.cases.case import Case, DType
from difftest.cases.draws import Floats, random, round_to
from difftest.cases.layers.operator import Operand
from difftest.cases.regimes import in_regime

LEAST_INTEGER, GREATEST_INTEGER = -8, 8
"""The range of integers where nothing bounds them."""

INSIDE = 1 / 64
"""How far drawn values stay inside bounds, as a share of their distance.

An operator need not be defined at its bounds, and rounding to a half type must not lead there.
"""

ASCENDING = frozenset(("boundaries", "sorted_sequence"))
"""Operands in which torch asks for ascending values along the last dim."""


def all_values(case: Case) -> Mapping[str, Floats]:
    """The values of every operand of a program, by full name, such as `0.input`."""
    return {
        f"{path}.{name}": values(case, path, name, operand)
        for path, layer in case.model.operators.items()
        for name, operand in layer.operands.items()
    }


def values(case: Case, path: str, name: str, operand: Operand) -> Floats:
    """The values of the operand `name` of the operator at `path`, in its shape, as float64.

    Booleans are 0 and 1. The values that the operand gives are rounded to its dtype as drawn ones are.
    """
    own = _unordered(case, path, name, operand)
    return np.sort(own) if name in ASCENDING and operand.shape else own


def _unordered(case: Case, path: str, name: str, operand: Operand) -> Floats:
    rng = random(case, f"operand {path}.{name}")
    if operand.values is not None:
        return _held(case, operand, np.array(operand.values, dtype=np.float64).reshape(operand.shape))
    if not operand.is_float:
        return _held(case, operand, _integers(operand, rng))
    dtype = case.dtype if operand.dtype == "float" else operand.dtype
    drawn = _floats(operand, rng)
    return _held(case, operand, in_regime(case.data.regime, drawn, operand, dtype, rng))


def _floats(operand: Operand, rng: np.random.Generator) -> Floats:
    """Uniform between two bounds, a normal distribution where there is none, half of one beside a bound."""
    low, high = operand.low, operand.high
    if low is not None and high is not None:
        margin = (high - low) * INSIDE
        uniform: Floats = rng.uniform(low + margin, high - margin, operand.shape)
        return uniform
    normal: Floats = rng.standard_normal(operand.shape)
    if low is not None:
        return low + INSIDE + np.abs(normal)
    if high is not None:
        return high - INSIDE - np.abs(normal)
    return normal


def _integers(operand: Operand, rng: np.random.Generator) -> Floats:
    """Whole numbers between the bounds, which they may reach."""
    least, greatest = (0, 1) if operand.dtype == "bool" else (LEAST_INTEGER, GREATEST_INTEGER)
    if operand.dtype == "uint8":
        least = 0
    low = least if operand.low is None else int(np.ceil(operand.low))
    high = max(greatest, low) if operand.high is None else int(np.floor(operand.high))
    drawn: npt.NDArray[np.int64] = rng.integers(min(low, high), high + 1, operand.shape)
    return drawn.astype(np.float64)


def _held(case: Case, operand: Operand, drawn: Floats) -> Floats:
    """`drawn` as the operand's dtype holds it."""
    if operand.dtype == "bool":
        return np.asarray(np.where(drawn != 0, 1.0, 0.0))
    if not operand.is_float:
        limits = np.iinfo(operand.dtype)
        whole: Floats = np.clip(np.rint(drawn), limits.min, limits.max)
        return np.asarray(whole)
    dtype: DType = case.dtype if operand.dtype == "float" else operand.dtype  # type: ignore[assignment]
    return np.asarray(round_to(dtype, drawn))  # numpy turns arrays without dims into numbers

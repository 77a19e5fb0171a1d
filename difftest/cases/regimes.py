"""What a regime makes of a program's drawn values: ties, kinks, values that are not finite, magnitudes.

A regime keeps the bounds of an operand, which it may reach. `normal` leaves the values as they are.
"""

import numpy as np

from difftest.cases.case import Regime
from difftest.cases.draws import Floats
from difftest.cases.layers.operator import Operand

KINKS = (0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, 2.5, -2.5, 3.0, -3.0, 6.0)
"""Where operators change their rule: relu at 0, `hardtanh` at 1, relu6 at 6, `round` between integers."""

MANTISSAS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
"""Stored bits of the significand."""

EXPONENTS = {"float16": 15, "bfloat16": 127, "float32": 127, "float64": 1023}
"""The exponent of the greatest power of two; that of the least normal one is 1 minus it."""

EXTREME = 0.45
"""The greatest exponent of extreme values, as a share of the greatest of all: their squares stay finite."""

LARGE, LARGE_HALF, TINY = 1024.0, 16.0, 1.0 / 4096.0
SHARE = 0.5
"""The share of values that a regime replaces."""

MOST_NONFINITE = 2


def in_regime(
    regime: Regime, drawn: Floats, operand: Operand, dtype: str, rng: np.random.Generator
) -> Floats:
    """`drawn`, the normal values of a floating-point operand of `dtype`, in `regime`."""
    drawn = np.asarray(drawn)
    if not drawn.size or regime == "normal":
        return drawn
    if regime == "nonfinite":
        # One or two NaNs and infinities; none where both bounds are given, which operators check
        if operand.low is not None and operand.high is not None:
            return drawn
        values = drawn.copy()
        for _ in range(int(rng.integers(1, MOST_NONFINITE + 1))):
            values.flat[rng.integers(values.size)] = rng.choice((np.nan, np.inf, -np.inf))
        return values
    return np.asarray(np.clip(_changed(regime, drawn, operand, dtype, rng), operand.low, operand.high))


def _changed(  # noqa: PLR0911  a regime each
    regime: Regime, drawn: Floats, operand: Operand, dtype: str, rng: np.random.Generator
) -> Floats:
    replaced = rng.random(drawn.shape) < SHARE
    match regime:
        case "ties":
            return _ties(drawn, operand, rng)
        case "kinks":
            return np.where(replaced, rng.choice(_kinks(operand), drawn.shape), drawn)
        case "zeros":
            return np.where(replaced, 0.0, drawn)
        case "signed_zeros":
            return np.where(replaced, rng.choice((0.0, -0.0), drawn.shape), drawn)
        case "large":
            return drawn * (LARGE_HALF if dtype == "float16" else LARGE)
        case "tiny":
            return drawn * TINY
        case "offset":
            return _offset(drawn, operand, dtype)
        case "denormal":
            return drawn * 2.0 ** (-EXPONENTS[dtype] - MANTISSAS[dtype] // 2)
        case "extreme":
            most = EXTREME * EXPONENTS[dtype]
            return np.sign(drawn) * np.exp2(rng.uniform(-most, most, drawn.shape))
        case _:
            return drawn


def _ties(drawn: Floats, operand: Operand, rng: np.random.Generator) -> Floats:
    """Small integers where nothing bounds them, and otherwise the first few of the drawn values."""
    if operand.low is None and operand.high is None:
        return rng.integers(-1, 2, drawn.shape).astype(np.float64)
    return rng.choice(drawn.ravel()[:3], drawn.shape)


def _kinks(operand: Operand) -> tuple[float, ...]:
    """The bounds, and the kinks between them."""
    low = -np.inf if operand.low is None else operand.low
    high = np.inf if operand.high is None else operand.high
    bounds = (bound for bound in (operand.low, operand.high) if bound is not None)
    return (*bounds, *(kink for kink in KINKS if low <= kink <= high))


def _offset(drawn: Floats, operand: Operand, dtype: str) -> Floats:
    """A mean that is large compared with the spread, which a dtype still resolves."""
    bits = MANTISSAS[dtype]
    if operand.low is not None and operand.high is not None:
        middle = (operand.low + operand.high) / 2
        share = float(2.0 ** (-bits / 4))
        return middle + (drawn - middle) * share
    mean = 2.0 ** (bits // 2)
    return drawn + (mean if operand.high is None else -mean)

"""Arithmetic, element by element, by the formulas of torch's documentation."""

import math
from collections.abc import Mapping
from typing import Literal

from workers.references.layers import Array, constant, logistic
from workers.references.operators import Formula
from workers.references.operators.special import erf, log1p


def add(_np: Array, x: Array, other: Array, *, alpha: float = 1) -> Array:
    """`x + alpha * other`."""
    return x + alpha * other


def sub(_np: Array, x: Array, other: Array, *, alpha: float = 1) -> Array:
    """`x - alpha * other`."""
    return x - alpha * other


def rsub(_np: Array, x: Array, other: Array, *, alpha: float = 1) -> Array:
    """`other - alpha * x`."""
    return other - alpha * x


def div(
    np: Array, x: Array, other: Array, *, rounding_mode: Literal["trunc", "floor"] | None = None
) -> Array:
    """The quotient, rounded toward zero, or down as Python's `//` and numpy's `floor_divide` do.

    An infinity has no quotient by a number with a remainder, and a number divided by an infinity of the other
    sign is just below 0.
    """
    quotient = x / other
    if rounding_mode == "floor":
        below = np.isinf(other) & np.isfinite(x) & (x * other < 0)
        undefined = np.isinf(x) & np.isfinite(other) & (other != 0)
        return np.where(undefined, np.nan, np.where(below, -1.0, np.floor(quotient)))
    return np.trunc(quotient) if rounding_mode else quotient


def lerp(np: Array, x: Array, end: Array, weight: Array) -> Array:
    """`x + weight * (end - x)`, and from the other end where that alone is finite."""
    from_end = end - (1 - weight) * (end - x)
    return np.where(np.isinf(x) & np.isfinite(end), from_end, x + weight * (end - x))


def addcmul(_np: Array, x: Array, one: Array, two: Array, *, value: float = 1) -> Array:
    """`x + value * one * two`."""
    return x + value * one * two


def addcdiv(_np: Array, x: Array, one: Array, two: Array, *, value: float = 1) -> Array:
    """`x + value * one / two`."""
    return x + value * one / two


def clamp(np: Array, x: Array, min: Array = None, max: Array = None) -> Array:
    """Not below `min`, and not above `max`; a bound that is no number gives none."""
    raised = x if min is None else np.where((x < min) | np.isnan(min), min, x)
    return raised if max is None else np.where((raised > max) | np.isnan(max), max, raised)


def xlogy(np: Array, x: Array, y: Array) -> Array:
    """`x * log(y)`, and 0 where `x` is 0. It is linear in `x`, which is its derivative there too."""
    nothing = (x == 0) & ((y <= 0) | (y == math.inf))
    return _positive_zeros(np, x, x * np.log(np.where(nothing, 1.0, y)))


def xlog1py(np: Array, x: Array, y: Array) -> Array:
    """`x * log(1 + y)`, as `xlogy`."""
    nothing = (x == 0) & ((y <= -1) | (y == math.inf))
    return _positive_zeros(np, x, x * log1p(np, np.where(nothing, 0.0, y)))


def _positive_zeros(np: Array, x: Array, product: Array) -> Array:
    """The product with its derivative, and without a sign where `x` is 0."""
    return np.where(x == 0, product - constant(np, product), product)


def fmax(np: Array, x: Array, other: Array) -> Array:
    """The greater, or the only number. Of two equal ones the first has the derivative."""
    return np.where((x >= other) | np.isnan(other), x, other)


def fmin(np: Array, x: Array, other: Array) -> Array:
    """The less, or the only number, as `fmax`."""
    return np.where((x <= other) | np.isnan(other), x, other)


FORMULAS: Mapping[str, Formula] = {
    "__radd__": lambda _np, x, other: other + x,
    "__rmatmul__": lambda _np, x, other: other @ x,
    "__rmod__": lambda np, x, other: np.mod(other, x),
    "__rmul__": lambda _np, x, other: other * x,
    "__rpow__": lambda _np, x, other: other**x,
    "__rsub__": lambda _np, x, other: other - x,
    "__rtruediv__": lambda _np, x, other: other / x,
    "add": add,
    "addcdiv": addcdiv,
    "addcmul": addcmul,
    "clamp": clamp,
    "clamp_max": lambda np, x, max: clamp(np, x, None, max),
    "clamp_min": clamp,
    "clip": clamp,
    "div": div,
    "erfc": lambda np, x: 1 - erf(np, x),
    "float_power": lambda _np, x, exponent: x**exponent,
    "fmax": fmax,
    "fmin": fmin,
    "frac": lambda np, x: x - np.trunc(x),
    "heaviside": lambda np, x, values: np.where(x == 0, values, np.where(x > 0, 1.0, 0.0)),
    "ldexp": lambda np, x, other: x * np.exp2(other),
    "lerp": lerp,
    "logit": lambda np, x: np.log(x / (1 - x)),
    "mul": lambda _np, x, other: x * other,
    "pow": lambda _np, x, exponent: x**exponent,
    "reciprocal": lambda _np, x: 1 / x,
    "round": lambda np, x: np.round(x),
    "rsqrt": lambda np, x: 1 / np.sqrt(x),
    "rsub": rsub,
    "sigmoid": logistic,
    "special.ndtr": lambda np, x: (1 + erf(np, x / math.sqrt(2))) / 2,
    "special.xlog1py": xlog1py,
    "sub": sub,
    "xlogy": xlogy,
}

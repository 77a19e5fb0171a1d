"""What HLO's elementwise instructions compute, on numpy arrays of any shape."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from difftest.passes.arrays import Array


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.asarray(x / y)
    safe = np.where(y == 0, 1, y)
    quotient = np.trunc(x / safe) if x.dtype.itemsize <= 4 else _exact_quotient(x, safe)  # noqa: PLR2004  bytes
    return np.asarray(
        np.where(y == 0, x.dtype.type(-1) if x.dtype.kind == "i" else ~x.dtype.type(0), quotient)
    )


def _exact_quotient(x: Array, y: Array) -> Array:
    quotient = x // y
    return np.asarray(np.where((quotient * y != x) & ((x < 0) ^ (y < 0)), quotient + 1, quotient))


def _remainder(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.asarray(np.fmod(x, y))
    return np.asarray(np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y))))


def _power(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.asarray(np.power(x, y))
    positive = np.power(x, np.maximum(y, 0))
    one = np.where((x == -1) & (y % 2 != 0), -1, np.where(np.abs(x) == 1, 1, 0))
    return np.asarray(np.where(y < 0, one, positive))


def _shift(left: Array, by: Array, move: Callable[[Array, Array], Array], beyond: Array | int) -> Array:
    bits = left.dtype.itemsize * 8
    outside = (by < 0) | (by >= bits) if by.dtype.kind == "i" else by >= bits
    return np.asarray(np.where(outside, beyond, move(left, np.where(outside, 0, by).astype(left.dtype))))


def _shift_right_logical(x: Array, y: Array) -> Array:
    unsigned = x.astype(f"u{x.dtype.itemsize}")
    return _shift(unsigned, y.astype(unsigned.dtype), np.right_shift, 0).astype(x.dtype)


def _round_from_zero(x: Array) -> Array:
    return np.asarray(np.where(np.abs(x - np.trunc(x)) == 0.5, np.trunc(x) + np.sign(x), np.rint(x)))  # noqa: PLR2004  a half


def _logical(plain: Callable[..., Any], bitwise: Callable[..., Any]) -> Callable[..., Array]:
    return lambda *operands: np.asarray((plain if operands[0].dtype == np.bool_ else bitwise)(*operands))


def _maximum(x: Array, y: Array) -> Array:
    """The greater one; of zeros the positive one, as IEEE 754 has it."""
    return (
        np.asarray(np.where((x == 0) & (y == 0), np.where(np.signbit(x), y, x), np.maximum(x, y)))
        if (x.dtype.kind == "f")
        else np.asarray(np.maximum(x, y))
    )


def _leading_zeros(x: Array) -> Array:
    bits = x.dtype.itemsize * 8
    count = np.vectorize(lambda number: bits - int(number & ((1 << bits) - 1)).bit_length(), otypes=[x.dtype])
    return np.asarray(count(x.astype(object))).astype(x.dtype)


UNARY: Mapping[str, Callable[[Array], Any]] = {
    "abs": np.abs,
    "negate": np.negative,
    "sign": lambda x: np.where(x == 0, x, np.sign(x)) if x.dtype.kind == "f" else np.sign(x),
    "floor": np.floor,
    "ceil": np.ceil,
    "round-nearest-afz": _round_from_zero,
    "round-nearest-even": np.rint,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "cosine": np.cos,
    "sine": np.sin,
    "tan": np.tan,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "logistic": lambda x: np.asarray(1 / (1 + np.exp(-x))),
    "is-finite": np.isfinite,
    "real": np.real,
    "imag": np.imag,
    "erf": lambda x: np.vectorize(math.erf, otypes=[x.dtype])(x) if x.size else x,
    "not": _logical(np.logical_not, np.invert),
    "popcnt": np.bitwise_count,
    "count-leading-zeros": _leading_zeros,
    "copy": lambda x: x,
    "optimization-barrier": lambda x: x,
}

BINARY: Mapping[str, Callable[[Array, Array], Any]] = {
    "add": lambda x, y: x | y if x.dtype == np.bool_ else x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x & y if x.dtype == np.bool_ else x * y,
    "divide": _divide,
    "maximum": _maximum,
    "minimum": np.minimum,
    "power": _power,
    "remainder": _remainder,
    "and": _logical(np.logical_and, np.bitwise_and),
    "or": _logical(np.logical_or, np.bitwise_or),
    "xor": _logical(np.logical_xor, np.bitwise_xor),
    "atan2": np.arctan2,
    "shift-left": lambda x, y: _shift(x, y, np.left_shift, 0),
    "shift-right-arithmetic": lambda x, y: _shift(x, y, np.right_shift, np.where(x < 0, -1, 0)),
    "shift-right-logical": _shift_right_logical,
    "complex": lambda x, y: x + 1j * y,
}

COMPARISONS: Mapping[str, Callable[[Array, Array], Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def compared(x: Array, y: Array, direction: str, *, total: bool) -> Array:
    """Whether each pair compares so; in `total` order NaN and the signs of zeros have a place."""
    if total and x.dtype.kind == "f":
        x, y = _place(x), _place(y)
    return np.asarray(COMPARISONS[direction](x, y))


def _place(x: Array) -> Array:
    """Integers in the total order of floats."""
    narrow = x.astype(np.float64) if x.dtype.itemsize > 8 else x  # noqa: PLR2004  numpy's longdouble
    bits = narrow.view(f"i{narrow.dtype.itemsize}")
    return np.asarray(np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits))

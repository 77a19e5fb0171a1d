"""Activations and softmax, by the formulas of torch's documentation.

What is not a number stays so: conditions are such that NaN, for which none holds, is left as it is.
"""

import math
from collections.abc import Mapping
from typing import Literal

from workers.references.layers import Array, constant, logistic
from workers.references.operators import Formula
from workers.references.operators.special import erf, log_of_one_and_power, magnitude, tanh

ALPHA, SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
"""The constants of SELU (Klambauer et al., 2017)."""


def relu(np: Array, x: Array, inplace: bool = False) -> Array:
    """0 below 0."""
    return np.where(x <= 0, constant(np, np.where(x < 0, 0.0, x)), x)  # -0.0 of -0.0


def elu(np: Array, x: Array, alpha: float = 1.0, inplace: bool = False) -> Array:
    """`alpha * (exp(x) - 1)` below 0."""
    return np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0.0, x)))


def celu(np: Array, x: Array, alpha: float = 1.0, inplace: bool = False) -> Array:
    """`alpha * (exp(x / alpha) - 1)` below 0."""
    return np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0.0, x) / alpha))


def selu(np: Array, x: Array, inplace: bool = False) -> Array:
    """A scaled ELU."""
    return SCALE * elu(np, x, ALPHA)


def gelu(np: Array, x: Array, *, approximate: Literal["none", "tanh"] = "none") -> Array:
    """`x` times the normal distribution's function of it, or an approximation of that by tanh."""
    if approximate == "tanh":
        return x * (1 + tanh(np, math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    return x * (1 + erf(np, x / math.sqrt(2))) / 2


def softplus(np: Array, x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """`log(1 + exp(beta * x)) / beta`, and `x` itself above the threshold."""
    scaled = beta * x
    return np.where(scaled > threshold, x, log_of_one_and_power(np, scaled) / beta)


def mish(np: Array, x: Array, inplace: bool = False) -> Array:
    """`x * tanh(softplus(x))`."""
    return x * tanh(np, softplus(np, x))


def glu(np: Array, x: Array, dim: int = -1) -> Array:
    """The first half times the sigmoid of the second."""
    one, two = np.split(x, 2, axis=dim)
    return one * logistic(np, two)


def prelu(np: Array, x: Array, weight: Array) -> Array:
    """`weight` is one, or one for each channel, which is dim 1."""
    slopes = weight.reshape(-1, *(1,) * (x.ndim - 2)) if x.ndim > 1 else weight.reshape(-1)
    return np.where(x > 0, x, (slopes if x.ndim else slopes[0]) * x)


def softmax(np: Array, x: Array, dim: int, dtype: str | None = None) -> Array:
    """Shares along `dim`."""
    powers = np.exp(x - greatest(np, x, dim))
    return powers / (powers if not x.ndim else powers.sum(dim, keepdims=True))


def log_softmax(np: Array, x: Array, dim: int, dtype: str | None = None) -> Array:
    """The logarithm of `softmax`."""
    shifted = x - greatest(np, x, dim)
    powers = np.exp(shifted)
    return shifted - np.log(powers if not x.ndim else powers.sum(dim, keepdims=True))


def softmin(np: Array, x: Array, dim: int, dtype: str | None = None) -> Array:
    """The softmax of the negative."""
    return softmax(np, -x, dim, dtype)


def greatest(np: Array, x: Array, dim: int) -> Array:
    """The greatest along `dim`, which is kept, without a derivative; a number's is itself."""
    return constant(np, x.max(dim, keepdims=True, initial=-np.inf) if x.ndim else x)


def hardtanh(np: Array, x: Array, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    """Between two bounds, at which the derivative is 0."""
    bounded = np.where(x < min_val, min_val, np.where(x > max_val, max_val, x))
    return np.where((x <= min_val) | (x >= max_val), constant(np, bounded), x)


def softshrink(np: Array, x: Array, lambd: float = 0.5) -> Array:
    """`lambd` nearer to 0, and 0 where that is nearer than it."""
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0.0))


def hardsigmoid(np: Array, x: Array) -> Array:
    """`x / 6 + 1 / 2` between -3 and 3, and 0 or 1 outside."""
    return np.where(x <= -3, 0.0, np.where(x >= 3, 1.0, x / 6 + 0.5))  # noqa: PLR2004  the documented bounds


_FUNCTIONAL: Mapping[str, Formula] = {
    "celu": celu,
    "elu": elu,
    "gelu": gelu,
    "glu": glu,
    "hardsigmoid": hardsigmoid,
    "hardswish": lambda np, x: x * hardsigmoid(np, x),
    "hardtanh": hardtanh,
    "leaky_relu": lambda np, x, negative_slope=0.01: np.where(x > 0, x, negative_slope * x),
    "logsigmoid": lambda np, x: 0.0 - log_of_one_and_power(np, -x),
    "mish": mish,
    "relu": relu,
    "relu6": lambda np, x: hardtanh(np, x, 0.0, 6.0),
    "selu": selu,
    "silu": lambda np, x: x / (1 + np.exp(-x)),
    "softmin": softmin,
    "softplus": softplus,
    "softshrink": softshrink,
    "softsign": lambda np, x: x / (1 + magnitude(np, x)),
    "tanhshrink": lambda np, x: x - tanh(np, x),
    "threshold": lambda np, x, threshold, value: np.where(x <= threshold, value, x),
}

FORMULAS: Mapping[str, Formula] = {
    **{f"nn.functional.{name}": formula for name, formula in _FUNCTIONAL.items()},
    "hardshrink": lambda np, x, lambd=0.5: np.where(np.abs(x) <= lambd, 0.0, x),
    "log_softmax": log_softmax,
    "prelu": prelu,
    "relu": relu,
    "softmax": softmax,
}

"""Functions that numpy lacks or JAX has otherwise, of arrays of both."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

import numpy as np

from workers.references.layers import Array
from workers.references.operators import Formula

_erf = np.vectorize(math.erf, otypes=[float])


def erf(arrays: Array, x: Array) -> Array:
    """The error function."""
    if arrays is np:
        return _erf(x)
    from jax.scipy import special

    return special.erf(x)


def log1p(arrays: Array, x: Array) -> Array:
    """`log(1 + x)`; XLA's own is up to 240 roundoffs off (jaxlib 0.7.1)."""
    return np.log1p(x) if arrays is np else _log1p_of_jax()(x)


@cache
def _log1p_of_jax() -> Callable[[Array], Array]:
    """By the quotient of `log(1 + x)` and what the sum rounds to (Kahan).

    Behind barriers, without which XLA makes `x` of `(1 + x) - 1`.
    """
    import jax
    from jax import lax
    from jax import numpy as arrays

    def by_quotient(x: Array) -> Array:
        added = lax.optimization_barrier(1 + x)
        unchanged = added == 1
        rounded = lax.optimization_barrier(added - 1)
        return arrays.where(unchanged, x, x * arrays.log(added) / arrays.where(unchanged, 1.0, rounded))

    log1p: Any = jax.custom_jvp(by_quotient)
    log1p.defjvps(lambda tangent, _result, x: tangent / (1 + x))
    return cast("Callable[[Array], Array]", log1p)


def log_of_one_and_power(arrays: Array, x: Array) -> Array:
    """`log(1 + exp(x))` by a power that does not overflow, of which one has its derivative at 0 too."""
    positive = x > 0
    power = arrays.exp(arrays.where(positive, -x, x))
    return arrays.where(positive, x, 0.0) + log1p(arrays, power)


def logaddexp(arrays: Array, x: Array, y: Array) -> Array:
    """`log(exp(x) + exp(y))`; a derivative by the result would lose what a large result rounds away."""
    return arrays.maximum(x, y) + log1p(arrays, arrays.exp(-_distance(arrays, x, y)))


def logaddexp2(arrays: Array, x: Array, y: Array) -> Array:
    """The same with powers of 2."""
    return arrays.maximum(x, y) + log1p(arrays, arrays.exp2(-_distance(arrays, x, y))) / math.log(2.0)


def _distance(arrays: Array, x: Array, y: Array) -> Array:
    """The magnitude of `x - y`, of which equal infinities have 0."""
    equal = arrays.isinf(x) & (x == y)
    return magnitude(arrays, arrays.where(equal, 0.0, x) - arrays.where(equal, 0.0, y))


def tanh(arrays: Array, x: Array) -> Array:
    """`tanh(x)`; XLA's own is up to 8 units in the last place off where it is nearly 1."""
    if arrays is np:
        return np.tanh(x)
    small = arrays.exp(-2 * arrays.abs(x))
    return arrays.where(arrays.abs(x) < 1, arrays.tanh(x), arrays.sign(x) * (1 - small) / (1 + small))


def hypot(arrays: Array, x: Array, y: Array) -> Array:
    """The length of the vector (x, y), whose gradient at 0 is 0, as that of a norm (`magnitude`)."""
    return np.hypot(x, y) if arrays is np else _hypot_of_jax()(x, y)


@cache
def _hypot_of_jax() -> Callable[[Array, Array], Array]:
    """JAX's own has a gradient of 1/2 there."""
    import jax
    from jax import numpy as arrays

    def share(tangent: Array, length: Array, part: Array) -> Array:
        return tangent * part / arrays.where(length == 0, 1.0, length)

    hypot: Any = jax.custom_jvp(arrays.hypot)
    hypot.defjvps(
        lambda tangent, length, x, _y: share(tangent, length, x),
        lambda tangent, length, _x, y: share(tangent, length, y),
    )
    return cast("Callable[[Array, Array], Array]", hypot)


def magnitude(arrays: Array, x: Array) -> Array:
    """`abs(x)`, whose derivative at 0 is 0: of all that are possible there, torch documents the least."""
    return arrays.where(x == 0, 0.0, arrays.sign(x) * x)  # 0.0 of -0.0 too


def copysign(arrays: Array, x: Array, other: Array) -> Array:
    """The magnitude of one with the sign of the other; like that, it has the derivative 0 at 0."""
    return magnitude(arrays, x) * arrays.where(arrays.signbit(other), -1.0, 1.0)


FORMULAS: Mapping[str, Formula] = {
    "abs": magnitude,
    "copysign": copysign,
    "erf": erf,
    "hypot": hypot,
    "log1p": log1p,
    "logaddexp": logaddexp,
    "logaddexp2": logaddexp2,
    "tanh": tanh,
}

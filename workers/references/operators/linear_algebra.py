"""Products and matrices, by the formulas of torch's documentation."""

import functools
from collections.abc import Mapping

from workers.references.layers import Array
from workers.references.operators import Formula


def addmm(_np: Array, x: Array, one: Array, two: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    """`beta * x + alpha * one @ two`."""
    return _added(x, one @ two, one.shape[-1], beta, alpha)


def addbmm(_np: Array, x: Array, one: Array, two: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    """The same with the products of a batch, added up."""
    return _added(x, (one @ two).sum(0), one.shape[0] * one.shape[-1], beta, alpha)


def addr(np: Array, x: Array, one: Array, two: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    """The same with the product of each element with each."""
    return _added(x, np.outer(one, two), 1, beta, alpha)


def _added(x: Array, sums: Array, terms: int, beta: float, alpha: float) -> Array:
    """`beta * x + alpha * sums`, where `x` counts for nothing if `beta` is 0.

    A sum of no terms adds nothing: it leaves -0.0, which 0.0 would not.
    """
    if not beta:
        return alpha * sums
    return beta * x + alpha * (sums if terms else -0.0 * sums)


def linear(_np: Array, x: Array, weight: Array, bias: Array = None) -> Array:
    """`x @ weight.T + bias`."""
    products = x @ weight.T
    return products if bias is None else products + bias


def bilinear(np: Array, one: Array, two: Array, weight: Array, bias: Array = None) -> Array:
    """`one @ weight[k] @ two + bias[k]` for each k."""
    products = np.einsum("...i,kij,...j->...k", one, weight, two)
    return products if bias is None else products + bias


def matrix_power(np: Array, x: Array, n: int) -> Array:
    """So many products of a matrix with itself; of its inverse for a negative number."""
    base = np.linalg.inv(x) if n < 0 else x
    unit = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    return functools.reduce(lambda power, _: power @ base, range(abs(n)), unit)


def cross(np: Array, x: Array, other: Array, *, dim: int = -1) -> Array:
    """Perpendicular to both vectors."""
    one, two = np.broadcast_arrays(x, other)
    (a, b, c), (d, e, f) = np.moveaxis(one, dim, 0), np.moveaxis(two, dim, 0)
    return np.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis=dim)


def vecdot(_np: Array, x: Array, other: Array, *, dim: int = -1) -> Array:
    """The sum of products along a dim."""
    return (x * other).sum(dim)


def vander(np: Array, x: Array, N: int | None = None) -> Array:
    """Powers of each element, from 0 on."""
    x = np.atleast_1d(x)
    powers = [np.ones_like(x)]
    for _ in range((x.shape[-1] if N is None else N) - 1):
        powers.append(powers[-1] * x)
    return np.stack(powers, axis=-1)


def multi_dot(np: Array, tensors: tuple[Array, ...]) -> Array:
    """The product of several matrices; the first and the last may be vectors."""
    return functools.reduce(np.matmul, tensors)


def tensordot(np: Array, one: Array, two: Array, dims: Array = 2) -> Array:
    """Sums over some dims of both; one of size 1 counts for every element of the other's."""
    for first, second in zip(*dims, strict=True) if isinstance(dims, tuple) else ():
        if one.shape[first] == 1:
            two = two.sum(second, keepdims=True)
        elif two.shape[second] == 1:
            one = one.sum(first, keepdims=True)
    return np.tensordot(one, two, dims)


FORMULAS: Mapping[str, Formula] = {
    "addbmm": addbmm,
    "addmm": addmm,
    "addmv": addmm,
    "addr": addr,
    "baddbmm": addmm,
    "bilinear": bilinear,
    "cross": cross,
    "linalg.cross": cross,
    "linalg.det": lambda np, x: np.linalg.det(x),
    "linalg.inv": lambda np, x: np.linalg.inv(x),
    "linalg.matrix_power": matrix_power,
    "linalg.multi_dot": multi_dot,
    "linalg.vander": vander,
    "linalg.vecdot": vecdot,
    "nn.functional.linear": linear,
    "tensordot": tensordot,
}

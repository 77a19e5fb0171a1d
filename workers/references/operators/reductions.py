"""Operators along dims: sums, extremes, moments, norms and running sums, by torch's documentation."""

import math
from collections.abc import Mapping
from functools import partial, wraps
from typing import Literal

from workers.references.layers import Array, constant
from workers.references.operators import Formula
from workers.references.operators.special import magnitude

Dims = int | tuple[int, ...] | None


def axes(x: Array, dim: Dims) -> tuple[int, ...]:
    """The dims that are meant, from 0: all for None and, where there is a tuple, for an empty one."""
    if dim is None or dim == ():
        return tuple(range(x.ndim))
    return tuple(one % x.ndim for one in (dim if isinstance(dim, tuple) else (dim,))) if x.ndim else ()


def count(x: Array, dim: Dims) -> int:
    """How many elements each result is of."""
    return math.prod(x.shape[at] for at in axes(x, dim))


def total(
    _np: Array, x: Array, dim: Dims = None, keepdim: bool = False, *, dtype: str | None = None
) -> Array:
    """The sum."""
    return x.sum(axes(x, dim), keepdims=keepdim)


def product(
    np: Array, x: Array, dim: Dims = None, keepdim: bool = False, *, dtype: str | None = None
) -> Array:
    """The product."""
    return np.prod(x, axes(x, dim), keepdims=keepdim)


def mean(_np: Array, x: Array, dim: Dims = None, keepdim: bool = False, *, dtype: str | None = None) -> Array:
    """The sum over the number of elements."""
    return x.sum(axes(x, dim), keepdims=keepdim) / count(x, dim)


def nansum(np: Array, x: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """The sum of what is a number."""
    return np.where(np.isnan(x), 0.0, x).sum(axes(x, dim), keepdims=keepdim)


def amax(_np: Array, x: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    """The greatest."""
    return x.max(axes(x, dim), keepdims=keepdim)


def amin(_np: Array, x: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    """The least."""
    return x.min(axes(x, dim), keepdims=keepdim)


def _extreme(np: Array, x: Array, other: Array = None, keepdim: bool = False, *, least: bool) -> Array:
    """The extreme of all, of two tensors element by element, or along a dim with its place."""
    if other is None:
        return x.min() if least else x.max()
    if not isinstance(other, int):
        return np.minimum(x, other) if least else np.maximum(x, other)
    if not x.ndim:
        return x, np.zeros((), "int64")
    at = np.expand_dims((np.argmin if least else np.argmax)(x, other), other)
    return _with_places(np, x, at, other, keepdim)


def _with_places(np: Array, x: Array, at: Array, dim: int, keepdim: bool) -> Array:
    """The elements at these places along a dim, one of each slice, and the places."""
    values = np.take_along_axis(x, at, dim)
    return (values, at) if keepdim else (np.squeeze(values, dim), np.squeeze(at, dim))


def kthvalue(np: Array, x: Array, k: Array, dim: int = -1, keepdim: bool = False) -> Array:
    """The k-th least number along a dim, from 1 on, with its place; `k` may differ from slice to slice."""
    if not x.ndim:
        return x, np.zeros((), "int64")
    order = np.argsort(x, axis=dim, stable=True)  # NaN come last
    at = np.take_along_axis(order, np.broadcast_to(k - 1, x.sum(dim, keepdims=True).shape), dim)
    return _with_places(np, x, at, dim, keepdim)


def median(np: Array, x: Array, dim: int | None = None, keepdim: bool = False, *, nan: bool = True) -> Array:
    """The lower of the two numbers in the middle; NaN where there is one, unless those are left out."""
    if dim is None:
        return median(np, x.reshape(-1), 0, nan=nan)[0]
    if not x.ndim:
        return x, np.zeros((), "int64")
    missing = np.isnan(x).sum(dim, keepdims=True)
    middle = (x.shape[dim] - (0 if nan else missing) + 1) // 2
    k = np.where(missing > 0, x.shape[dim] - missing + 1, middle) if nan else np.maximum(middle, 1)
    return kthvalue(np, x, k, dim, keepdim)


def aminmax(_np: Array, x: Array, *, dim: Dims = None, keepdim: bool = False) -> Array:
    """The least and the greatest."""
    return x.min(axes(x, dim), keepdims=keepdim), x.max(axes(x, dim), keepdims=keepdim)


def var(
    np: Array,
    x: Array,
    dim: Array = None,
    unbiased: Array = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Array:
    """The squared distances from the mean over the number of elements less `correction`, by default 1."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    less = int(unbiased) if unbiased is not None else 1 if correction is None else correction
    centred = x - x.sum(axes(x, dim), keepdims=True) / np.float64(count(x, dim))
    left = max(0, count(x, dim) - less)
    return (centred**2).sum(axes(x, dim), keepdims=keepdim) / np.float64(left)


@wraps(var, assigned=())
def std(np: Array, *arrays: Array, **options: Array) -> Array:
    """The root of the variance."""
    return _root(np, var(np, *arrays, **options), 2)


def _root(np: Array, x: Array, degree: float) -> Array:
    """A root, whose derivative at 0 is 0: of all that are possible there, the least (`special.magnitude`)."""
    zero = x == 0
    return np.where(zero, 0.0, np.where(zero, 1.0, x) ** (1 / degree))


def _with_mean(np: Array, x: Array, *arrays: Array, spread: Formula, **options: Array) -> Array:
    """The spread and the mean."""
    of_dims = [one for one in (*arrays, options.get("dim")) if one is not None and not isinstance(one, bool)]
    keepdim = options.get("keepdim", False) or (len(arrays) > 2 and arrays[2])  # noqa: PLR2004  its place
    return spread(np, x, *arrays, **options), mean(np, x, of_dims[0] if of_dims else None, bool(keepdim))


def vector_norm(
    np: Array,
    x: Array,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: str | None = None,
) -> Array:
    """The p-norm; for 0 the number of elements that are not 0."""
    sizes, over = magnitude(np, x), axes(x, dim)
    if ord == math.inf:
        return sizes.max(over, keepdims=keepdim)
    if ord == -math.inf:
        return sizes.min(over, keepdims=keepdim)
    if ord == 0:
        return (sizes != 0).sum(over, keepdims=keepdim) * 1.0
    if ord == 1:
        return sizes.sum(over, keepdims=keepdim)
    return _root(np, (sizes**ord).sum(over, keepdims=keepdim), ord)


def norm(
    np: Array,
    x: Array,
    p: float | Literal["fro"] | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: str | None = None,
) -> Array:
    """The p-norm of all elements, or along dims; Frobenius' is the 2-norm."""
    return vector_norm(np, x, 2 if p is None or isinstance(p, str) else p, dim, keepdim)


def logsumexp(np: Array, x: Array, dim: Dims, keepdim: bool = False) -> Array:
    """The logarithm of the sum of powers."""
    over = axes(x, dim)
    most = x.max(over, keepdims=True, initial=-np.inf)
    most = constant(np, np.where(np.isfinite(most), most, 0.0))
    summed = np.log(np.exp(x - most).sum(over, keepdims=True)) + most
    return summed if keepdim else np.squeeze(summed, over)


def diff(
    np: Array, x: Array, n: int = 1, dim: int = -1, prepend: Array = None, append: Array = None
) -> Array:
    """Differences of neighbours, several times; `prepend` and `append` come before and after all."""
    if not n:
        return x
    parts = [part for part in (prepend, x, append) if part is not None]
    joined = np.concatenate(parts, axis=dim)
    return np.diff(joined, min(n, joined.shape[dim]), axis=dim)


def cumulative_trapezoid(np: Array, y: Array, x: Array = None, *, dx: float = 1.0, dim: int = -1) -> Array:
    """Sums of the areas of trapezoids, from the first on."""
    return np.cumsum(_areas(np, y, x, dx, dim), dim)


def trapezoid(np: Array, y: Array, x: Array = None, *, dx: float = 1.0, dim: int = -1) -> Array:
    """The sum of the areas of trapezoids."""
    return _areas(np, y, x, dx, dim).sum(dim)


def _areas(np: Array, y: Array, x: Array, dx: float, dim: int) -> Array:
    heights = np.moveaxis(y, dim, -1)
    pairs = (heights[..., 1:] + heights[..., :-1]) / 2
    if x is None:
        return np.moveaxis(pairs * dx, -1, dim)
    places = x if x.ndim == 1 else np.moveaxis(x, dim, -1)
    return np.moveaxis(pairs * np.diff(places, axis=-1), -1, dim)


def _masked(
    np: Array,
    x: Array,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: str | None = None,
    mask: Array = None,
    of: Formula,
    filling: float,
) -> Array:
    """A reduction of the elements that a mask keeps; the others count as what changes nothing."""
    return of(np, x if mask is None else np.where(mask, x, filling), dim, keepdim)


def _masked_mean(
    np: Array,
    x: Array,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: str | None = None,
    mask: Array = None,
) -> Array:
    """The mean of the elements that a mask keeps."""
    kept = np.ones(x.shape) if mask is None else np.broadcast_to(mask, x.shape) * 1.0
    over = axes(x, dim)
    return np.where(kept > 0, x, 0.0).sum(over, keepdims=keepdim) / kept.sum(over, keepdims=keepdim)


FORMULAS: Mapping[str, Formula] = {
    "amax": amax,
    "amin": amin,
    "aminmax": aminmax,
    "cumprod": lambda np, x, dim: np.cumprod(x, dim) if x.ndim else x,
    "cumsum": lambda np, x, dim: np.cumsum(x, dim) + 0.0 if x.ndim else x,
    "cumulative_trapezoid": cumulative_trapezoid,
    "diff": diff,
    "kthvalue": kthvalue,
    "linalg.norm": lambda np, x, *, dim=None, keepdim=False: vector_norm(np, x, 2, dim, keepdim),
    "linalg.vector_norm": vector_norm,
    "logsumexp": logsumexp,
    "masked.amax": partial(_masked, of=amax, filling=-math.inf),
    "masked.amin": partial(_masked, of=amin, filling=math.inf),
    "masked.mean": _masked_mean,
    "masked.prod": partial(_masked, of=product, filling=1.0),
    "masked.sum": partial(_masked, of=total, filling=0.0),
    "max": partial(_extreme, least=False),
    "mean": mean,
    "median": median,
    "min": partial(_extreme, least=True),
    "nanmedian": partial(median, nan=False),
    "nansum": nansum,
    "norm": norm,
    "prod": product,
    "std": std,
    "std_mean": partial(_with_mean, spread=std),
    "sum": total,
    "trapezoid": trapezoid,
    "trapz": trapezoid,
    "var": var,
    "var_mean": partial(_with_mean, spread=var),
}

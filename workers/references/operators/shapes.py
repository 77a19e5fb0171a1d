"""Operators that put elements in other places, by the formulas of torch's documentation."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from workers.references.layers import Array
from workers.references.operators import Formula


def _listed(arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Sizes, dims or tensors that are given as one list, or one by one."""
    return tuple(arrays[0]) if len(arrays) == 1 and isinstance(arrays[0], tuple) else tuple(arrays)


def _along(x: Array, dim: int, index: Array) -> Array:
    """The part of `x` that an index or a slice of `dim` selects."""
    return x[(slice(None),) * (dim % x.ndim) + (index,)]


def flatten(_np: Array, x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    """One dim in place of several."""
    if not x.ndim:
        return x.reshape(1)
    first, last = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape(*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :])


def squeeze(_np: Array, x: Array, dim: Array = None) -> Array:
    """Without dims of size 1: all, or some."""
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    left_out = {one % x.ndim for one in dims} if x.ndim else set()
    kept = (size for at, size in enumerate(x.shape) if at not in left_out or size != 1)
    return x.reshape(tuple(kept))


def unsqueeze(np: Array, x: Array, dim: int) -> Array:
    """With a dim of size 1 more."""
    return np.expand_dims(x, dim)


def transpose(np: Array, x: Array, dim0: int, dim1: int) -> Array:
    """Two dims change their places."""
    return np.swapaxes(x, dim0, dim1) if x.ndim else x


def reshape(_np: Array, x: Array, *shape: Array) -> Array:
    """The same elements in row-major order."""
    return x.reshape(_listed(shape))


def expand(np: Array, x: Array, *sizes: Array) -> Array:
    """Dims of size 1 are repeated; -1 keeps a size."""
    wanted = _listed(sizes)
    there = (1,) * (len(wanted) - x.ndim) + x.shape
    return np.broadcast_to(
        x, tuple(own if size == -1 else size for own, size in zip(there, wanted, strict=True))
    )


def repeat(np: Array, x: Array, *times: Array) -> Array:
    """Copies beside one another."""
    return np.tile(x, _listed(times))


def permute(np: Array, x: Array, *dims: Array) -> Array:
    """Dims in another order."""
    return np.transpose(x, _listed(dims))


def flip(np: Array, x: Array, dims: tuple[int, ...]) -> Array:
    """In reverse along some dims."""
    return np.flip(x, dims)


def split(np: Array, x: Array, split_size_or_sections: Array, dim: int = 0) -> tuple[Array, ...]:
    """Parts of one size, of which the last may be smaller, or of several."""
    sizes = split_size_or_sections
    if not isinstance(sizes, tuple):
        if not sizes:
            return (x,)
        sizes = (sizes,) * max(1, -(-x.shape[dim] // sizes))
    ends = list(itertools.accumulate(sizes))[:-1]
    return tuple(np.split(x, ends, axis=dim))


def chunk(np: Array, x: Array, chunks: int, dim: int = 0) -> tuple[Array, ...]:
    """At most `chunks` parts of one size."""
    return split(np, x, max(1, -(-x.shape[dim] // chunks)), dim)


def unbind(np: Array, x: Array, dim: int = 0) -> tuple[Array, ...]:
    """Each slice of a dim."""
    return tuple(np.moveaxis(x, dim, 0))


def cat(np: Array, tensors: tuple[Array, ...], dim: int = 0) -> Array:
    """Behind one another along a dim. Empty vectors, which torch allows beside others, count for nothing."""
    parts = [one for one in tensors if one.shape != (0,)] or list(tensors[:1])
    return np.concatenate(parts, axis=dim)


def stack(np: Array, tensors: tuple[Array, ...], dim: int = 0) -> Array:
    """Along a new dim."""
    return np.stack(list(tensors), axis=dim)


def block_diag(np: Array, *tensors: Array) -> Array:
    """Matrices along the diagonal, with zeros beside them."""
    blocks = [np.atleast_2d(tensor) for tensor in _listed(tensors)]
    width = sum(block.shape[1] for block in blocks)
    rows, left = [], 0
    for block in blocks:
        after = width - left - block.shape[1]
        rows.append(np.pad(block, ((0, 0), (left, after))))
        left += block.shape[1]
    return np.concatenate(rows, axis=0)


def meshgrid(np: Array, *tensors: Array, indexing: Literal["ij", "xy"] = "ij") -> tuple[Array, ...]:
    """Grids of coordinates."""
    vectors = [np.atleast_1d(tensor) for tensor in _listed(tensors)]
    return tuple(np.meshgrid(*vectors, indexing=indexing))


def diagonal(np: Array, x: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """The diagonals of two dims, as the last dim."""
    return np.diagonal(x, offset, dim1, dim2)


def of_matrices(np: Array, x: Array, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """The diagonals of the last two dims."""
    return np.diagonal(x, offset, dim1, dim2)


def roll(np: Array, x: Array, shifts: Array, dims: Array = None) -> Array:
    """Further along, and what leaves at the end comes in at the start."""
    return np.roll(x, shifts, None if dims == () else dims)


def pad(
    np: Array,
    x: Array,
    pad: tuple[int, ...],
    mode: Literal["constant"] = "constant",
    value: float | None = None,
) -> Array:
    """More elements at both ends of the last dims, of which the last comes first; negative sizes cut."""
    before, after = pad[::2], pad[1::2]
    for back, (left, right) in enumerate(zip(before, after, strict=True)):
        dim = x.ndim - 1 - back
        x = _along(x, dim, slice(max(0, -left), x.shape[dim] - max(0, -right)))
        widths = [(0, 0)] * x.ndim
        widths[dim] = max(0, left), max(0, right)
        x = np.pad(x, widths, mode, constant_values=value or 0.0)
    return x


def pixel_shuffle(np: Array, x: Array, upscale_factor: int) -> Array:
    """Channels become pixels."""
    *lead, channels, height, width = x.shape
    factor, own = upscale_factor, channels // upscale_factor**2
    parts = x.reshape(*lead, own, factor, factor, height, width)
    first = len(lead)
    order = (*range(first), first, first + 3, first + 1, first + 4, first + 2)
    return np.transpose(parts, order).reshape(*lead, own, height * factor, width * factor)


def channel_shuffle(np: Array, x: Array, groups: int) -> Array:
    """Channels of each group in turn."""
    rows, channels, *rest = x.shape
    return np.swapaxes(x.reshape(rows, groups, channels // groups, *rest), 1, 2).reshape(x.shape)


def gather(np: Array, x: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    """Along `dim` the elements that `index` names; it may be smaller in others, and of any shape if empty."""
    if not index.size:
        return np.zeros(index.shape)
    if not x.ndim or not index.ndim:
        return np.broadcast_to(x.reshape(-1)[0], index.shape)
    dim %= x.ndim
    cut = tuple(slice(None) if at == dim else slice(size) for at, size in enumerate(index.shape))
    return np.take_along_axis(x[cut], index, axis=dim)


def index_select(_np: Array, x: Array, dim: int, index: Array) -> Array:
    """The slices of a dim that `index` names."""
    return _along(x, dim, index.reshape(-1)) if x.ndim else x


def placed(np: Array, x: Array, dim: int, index: Array) -> Array:
    """Which slice of `dim` each element of `index` is: 1 there and 0 elsewhere, (size, elements)."""
    return (np.arange(x.shape[dim])[:, None] == index.reshape(-1)[None, :]) * 1.0


def index_add(np: Array, x: Array, dim: int, index: Array, source: Array, *, alpha: float = 1) -> Array:
    """Slices of `source` are added to those of a dim that `index` names."""
    if not x.ndim:
        return index_add(np, x[None], 0, index, source.reshape(-1), alpha=alpha)[0]
    chosen, slices = placed(np, x, dim, index), np.moveaxis(source, dim, 0)
    chosen = chosen.reshape(*chosen.shape, *(1,) * (slices.ndim - 1)) > 0
    added = np.where(chosen, slices, 0.0).sum(1)  # no product, which infinities would spoil
    return x + alpha * np.moveaxis(added, 0, dim)


def index_fill(np: Array, x: Array, dim: int, index: Array, value: float) -> Array:
    """A number in those slices of a dim that `index` names."""
    if not x.ndim:
        return np.full_like(x, value)
    filled = placed(np, x, dim, index).sum(1) > 0
    return np.where(filled.reshape(-1, *(1,) * (x.ndim - 1 - dim % x.ndim)), value, x)


Folds: TypeAlias = Literal["sum", "prod", "mean", "amax", "amin"]


def scatter_reduce(
    np: Array, x: Array, dim: int, index: Array, src: Array, reduce: Folds, *, include_self: bool = True
) -> Array:
    """Each element of `src` for which there is an index is reduced into the place of `dim` that this names.

    What no index names stays; with `include_self` the elements of `x` are reduced too.
    """
    if not x.ndim or not index.ndim:
        flat, names, given = (one.reshape(-1) for one in (x, index, src))
        return scatter_reduce(np, flat, 0, names, given, reduce, include_self=include_self).reshape(x.shape)
    neutral = {"prod": 1.0, "amax": -math.inf, "amin": math.inf}.get(reduce, 0.0)
    into, names, given = (np.moveaxis(one, dim, 0) for one in (x, index, src[tuple(map(slice, index.shape))]))
    beyond = [(0, 0), *((0, there - own) for there, own in zip(into.shape[1:], names.shape[1:], strict=True))]
    names, given = np.pad(names, beyond, constant_values=-1), np.pad(given, beyond)
    here = names[None] == np.arange(len(into)).reshape(-1, *(1,) * names.ndim)  # (places, elements, others)
    first = into if include_self else np.where(here.any(1), neutral, into)
    terms = np.concatenate([first[:, None], np.where(here, given, neutral)], 1)
    counted = here.sum(1) + (1 if include_self else ~here.any(1))
    folds = {"prod": terms.prod, "amax": terms.max, "amin": terms.min}
    reduced = terms.sum(1) / counted if reduce == "mean" else folds.get(reduce, terms.sum)(1)
    return np.moveaxis(reduced, 0, dim)


_PLAIN: Mapping[str, Formula] = {
    "atleast_1d": lambda np, *given: _each(np.atleast_1d, given),
    "atleast_2d": lambda np, *given: _each(np.atleast_2d, given),
    "atleast_3d": lambda np, *given: _each(np.atleast_3d, given),
    "block_diag": block_diag,
    "broadcast_tensors": lambda np, *given: tuple(np.broadcast_arrays(*_listed(given))),
    "broadcast_to": expand,
    "cat": cat,
    "channel_shuffle": channel_shuffle,
    "chunk": chunk,
    "clone": lambda _np, x: x,
    "column_stack": lambda np, tensors: np.column_stack(list(tensors)),
    "constant_pad_nd": lambda np, x, pad_, value=0: pad(np, x, pad_, "constant", value),
    "contiguous": lambda _np, x: x,
    "diag": lambda np, x, diagonal=0: np.diag(x, diagonal),
    "diagflat": lambda np, x, offset=0: np.diagflat(x, offset),
    "diagonal": diagonal,
    "dstack": lambda np, tensors: np.dstack(list(tensors)),
    "expand": expand,
    "expand_as": lambda np, x, other: np.broadcast_to(x, other.shape),
    "flatten": flatten,
    "flip": flip,
    "gather": gather,
    "H": lambda _np, x: x.T,
    "hstack": lambda np, tensors: np.hstack(list(tensors)),
    "index_add": index_add,
    "index_fill": index_fill,
    "index_select": index_select,
    "linalg.diagonal": of_matrices,
    "masked_fill": lambda np, x, mask, value: np.where(mask, value, x),
    "meshgrid": meshgrid,
    "mH": lambda np, x: np.swapaxes(x, -1, -2),
    "movedim": lambda np, x, source, destination: np.moveaxis(x, source, destination),
    "mT": lambda np, x: np.swapaxes(x, -1, -2),
    "narrow": lambda _np, x, dim, start, length: _along(x, dim, slice(start, start + length)),
    "nn.functional.pad": pad,
    "permute": permute,
    "pixel_shuffle": pixel_shuffle,
    "repeat": repeat,
    "reshape": reshape,
    "reshape_as": lambda _np, x, other: x.reshape(other.shape),
    "roll": roll,
    "rot90": lambda np, x, k=1, dims=(0, 1): np.rot90(x, k, dims),
    "scatter_add": lambda np, x, dim, index, src: scatter_reduce(np, x, dim, index, src, "sum"),
    "scatter_reduce": scatter_reduce,
    "select": lambda _np, x, dim, index_: _along(x, dim, index_),
    "split": split,
    "split_with_sizes": split,
    "squeeze": squeeze,
    "stack": stack,
    "T": lambda _np, x: x.T,
    "t": lambda _np, x: x.T,
    "take": lambda _np, x, index: x.reshape(-1)[index],
    "tile": repeat,
    "transpose": transpose,
    "tril": lambda np, x, diagonal=0: np.tril(x, diagonal),
    "triu": lambda np, x, diagonal=0: np.triu(x, diagonal),
    "unbind": unbind,
    "unsafe_chunk": chunk,
    "unsafe_split": split,
    "unsqueeze": unsqueeze,
    "view": reshape,
    "view_as": lambda _np, x, other: x.reshape(other.shape),
    "vstack": lambda np, tensors: np.vstack(list(tensors)),
    "where": lambda np, condition, x, other: np.where(condition, x, other),
}


def _each(function: Formula, arrays: Sequence[Array]) -> Array:
    """The result for one tensor, or for each of several."""
    parts = tuple(function(tensor) for tensor in _listed(arrays))
    several = len(arrays) > 1 or isinstance(arrays[0], tuple)
    return parts if several else parts[0]


_COPIED = (
    "diagonal",
    "expand",
    "narrow",
    "permute",
    "split_with_sizes",
    "squeeze",
    "t",
    "transpose",
    "unbind",
    "unsqueeze",
    "view",
)
"""The views that torch has as copies too."""

FORMULAS: Mapping[str, Formula] = {
    **_PLAIN,
    "alias_copy": lambda _np, x: x,
    **{f"{name}_copy": _PLAIN[name] for name in _COPIED},
}

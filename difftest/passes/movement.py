"""What HLO's instructions do that only move elements."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from difftest.passes.arrays import Array
from difftest.passes.hlo import Instruction, Shape, UnreadableError
from difftest.passes.hlo_text import split


def broadcast(x: Array, instruction: Instruction) -> Array:
    """`x` with its dims at the places that `dimensions` names."""
    places = instruction.numbers("dimensions")
    dims = [1] * len(instruction.shape.dims)
    order = sorted(range(len(places)), key=lambda at: places[at])
    for place, size in zip(places, x.shape, strict=True):
        dims[place] = size
    return np.broadcast_to(x.transpose(order).reshape(dims), instruction.shape.dims)


def bitcast(x: Array, before: Shape, after: Shape) -> Array:
    """`x` read as another shape, in the order of its memory: both layouts count."""
    memory = x.transpose(tuple(reversed(before.layout))).reshape(-1)
    order = tuple(reversed(after.layout))
    return memory.reshape([after.dims[dim] for dim in order]).transpose(np.argsort(order) if order else [])


def sliced(x: Array, instruction: Instruction) -> Array:
    """The elements that `slice={[start:limit:stride], ...}` names."""
    parts = re.findall(r"\[(\d+):(\d+)(?::(\d+))?\]", instruction.attributes.get("slice", ""))
    return x[tuple(slice(int(start), int(end), int(step or 1)) for start, end, step in parts)]


def _starts(x: Array, sizes: Sequence[int], starts: Sequence[Array]) -> tuple[slice, ...]:
    """Where a block begins whose start is moved so that it lies inside."""
    places = (
        int(np.clip(int(at), 0, had - size)) for at, had, size in zip(starts, x.shape, sizes, strict=True)
    )
    return tuple(slice(place, place + size) for place, size in zip(places, sizes, strict=True))


def dynamic_slice(x: Array, starts: Sequence[Array], instruction: Instruction) -> Array:
    """A block of `x`."""
    return x[_starts(x, instruction.numbers("dynamic_slice_sizes"), starts)]


def dynamic_update_slice(x: Array, update: Array, starts: Sequence[Array]) -> Array:
    """`x` with a block replaced."""
    result = x.copy()
    result[_starts(x, update.shape, starts)] = update
    return result


def pad(x: Array, value: Array, instruction: Instruction) -> Array:
    """`x` with elements before, after and between its own; a negative number takes some away."""
    for dim, text in enumerate(part for part in instruction.attributes["padding"].split("x") if part):
        low, high, *inner = (int(number) for number in text.split("_"))
        x = padded(x, dim, low, high, inner[0] if inner else 0, value)
    return x


def padded(x: Array, dim: int, low: int, high: int, inner: int, value: Array | float) -> Array:  # noqa: PLR0913, PLR0917  HLO's
    """`x` padded in one dim."""
    had = x.shape[dim]
    spread = had + max(had - 1, 0) * inner
    result = np.full((*x.shape[:dim], spread, *x.shape[dim + 1 :]), value, x.dtype)
    result[(slice(None),) * dim + (slice(None, None, inner + 1),)] = x
    more = [(0, 0)] * x.ndim
    more[dim] = (max(low, 0), max(high, 0))
    result = np.pad(
        result, more, constant_values=np.asarray(value, x.dtype).item() if x.dtype != np.longdouble else value
    )
    return result[(slice(None),) * dim + (slice(max(-low, 0), result.shape[dim] - max(-high, 0)),)]


def iota(instruction: Instruction, dtype: np.dtype[Any]) -> Array:
    """Numbers that count along one dim."""
    dim = instruction.numbers("iota_dimension")[0]
    shape = [1] * len(instruction.shape.dims)
    shape[dim] = instruction.shape.dims[dim]
    return np.broadcast_to(np.arange(shape[dim]).astype(dtype).reshape(shape), instruction.shape.dims)


def _with_index_dim(indices: Array, dim: int) -> Array:
    return indices[..., None] if dim == indices.ndim else np.moveaxis(indices, dim, -1)


def gather(x: Array, indices: Array, instruction: Instruction) -> Array:
    """Blocks of `x` whose starts are in `indices`."""
    offset_dims, collapsed = instruction.numbers("offset_dims"), instruction.numbers("collapsed_slice_dims")
    batching, of_indices = (
        instruction.numbers("operand_batching_dims"),
        instruction.numbers("start_indices_batching_dims"),
    )
    index_map, sizes = instruction.numbers("start_index_map"), instruction.numbers("slice_sizes")
    vector_dim = instruction.numbers("index_vector_dim")[0]
    starts = _with_index_dim(indices, vector_dim)
    batch = starts.shape[:-1]
    kept = [size for dim, size in enumerate(sizes) if dim not in collapsed and dim not in batching]
    result = np.empty((*batch, *kept), x.dtype)
    places = _batch_places(of_indices, vector_dim)
    for at in np.ndindex(*batch):
        start = [0] * x.ndim
        for dim, value in zip(index_map, starts[at], strict=True):
            start[dim] = int(np.clip(int(value), 0, x.shape[dim] - sizes[dim]))
        for dim, place in zip(batching, places, strict=True):
            start[dim] = at[place]
        block = x[tuple(slice(first, first + size) for first, size in zip(start, sizes, strict=True))]
        result[at] = block.reshape(kept)
    rank = result.ndim
    batch_dims = [dim for dim in range(rank) if dim not in offset_dims]
    return result.transpose(np.argsort([*batch_dims, *offset_dims]))


def _batch_places(of_indices: Sequence[int], vector_dim: int) -> list[int]:
    """The dims of the batch of `indices`, which lacks the dim of the index vector."""
    return [dim - (dim > vector_dim) for dim in of_indices]


def scatter_places(
    x: Array, indices: Array, updates: Array, instruction: Instruction
) -> list[tuple[Any, Any]]:
    """Pairs of a block of `x` and the block of `updates` that goes there, as indices; none outside of `x`."""
    window, inserted = instruction.numbers("update_window_dims"), instruction.numbers("inserted_window_dims")
    batching, of_indices = (
        instruction.numbers("input_batching_dims"),
        instruction.numbers("scatter_indices_batching_dims"),
    )
    to_operand = instruction.numbers("scatter_dims_to_operand_dims")
    vector_dim = instruction.numbers("index_vector_dim")[0]
    starts = _with_index_dim(indices, vector_dim)
    others = [dim for dim in range(updates.ndim) if dim not in window]
    kept = [dim for dim in range(x.ndim) if dim not in inserted and dim not in batching]
    places, pairs = _batch_places(of_indices, vector_dim), list[tuple[Any, Any]]()
    for at in np.ndindex(*starts.shape[:-1]):
        start, size = [0] * x.ndim, [1] * x.ndim
        for dim, update_dim in zip(kept, window, strict=True):
            size[dim] = updates.shape[update_dim]
        for dim, value in zip(to_operand, starts[at], strict=True):
            start[dim] = int(value)
        for dim, place in zip(batching, places, strict=True):
            start[dim] = at[place]
        if any(first < 0 or first + n > had for first, n, had in zip(start, size, x.shape, strict=True)):
            continue
        block = tuple(
            slice(first, first + n) if dim in kept else first
            for dim, (first, n) in enumerate(zip(start, size, strict=True))
        )
        update: list[Any] = [slice(None)] * updates.ndim
        for dim, place in zip(others, at, strict=True):
            update[dim] = place
        pairs.append((block, tuple(update)))
    return pairs


def groups(text: str, everyone: int) -> list[list[int]]:
    """The groups of a collective: `{{0,1},{2,3}}`, `[2,2]<=[4]`, `mesh['a'=2,'b'=2] {'a'}`, or one of all."""
    if text.startswith("mesh"):
        written, _, named = text.partition("]")
        sizes = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", written)}
        axes = re.findall(r"'([^']+)'", named)
        if ":" in named or not set(axes) <= {*sizes}:
            msg = f"no groups of a collective that this program reads: {text[:100]!r}"
            raise UnreadableError(msg)
        order = [*(axis for axis in sizes if axis not in axes), *axes]
        ids = (
            np.arange(everyone).reshape([*sizes.values()]).transpose([[*sizes].index(axis) for axis in order])
        )
        members = int(np.prod([sizes[axis] for axis in axes], dtype=int))
        return [[int(i) for i in row] for row in ids.reshape(-1, members)]
    if text.startswith("["):
        made, _, source = text.partition("<=")
        dims, order = source.partition("T(")[0], re.findall(r"T\(([\d,]+)\)", source)
        ids = np.arange(everyone).reshape([int(n) for n in re.findall(r"\d+", dims)])
        ids = ids.transpose([int(n) for n in order[0].split(",")]) if order else ids
        return [[int(i) for i in row] for row in ids.reshape([int(n) for n in re.findall(r"\d+", made)])]
    listed = [[int(n) for n in re.findall(r"\d+", part)] for part in split(text[1:-1])]
    return [group for group in listed if group] or [list(range(everyone))]

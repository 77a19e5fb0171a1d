"""Which elements of a whole tensor a rank has, so that the sketches of all ranks add up.

A DTensor says it itself. A plain tensor of a batch is this rank's rows of the whole batch, which is the
micro-batches one after another, each cut in the order of the data-parallel ranks. Any other plain tensor is
whole.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from difftest.runs.layout import NamedShare
from workers.runs.owned import FlatRange, rectangles
from workers.runs.sketching import LocalBlock
from workers.torch import strided

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

MOST_PARTS = 64
"""Into so many contiguous blocks a local tensor is divided at most; one with more is not sketched."""


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """The place of this rank among those over which the batch is cut."""

    rank: int = 0
    ranks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RankShare:
    """A rank's share of a tensor: its local values, its blocks, the whole shape and the name of the share.

    `factor` is what the local values are multiplied with. No `parts` means that the elements are not known.
    `mesh` and `cut` are those of a DTensor (`difftest.runs.layout.Tensor`).
    """

    local: Tensor
    shape: tuple[int, ...]
    parts: tuple[LocalBlock, ...]
    piece: NamedShare
    factor: float = 1.0
    mesh: tuple[tuple[str, int], ...] = ()
    cut: tuple[int | None, ...] = ()


def is_dtensor(tensor: object) -> bool:
    """Whether `tensor` is a DTensor."""
    return isinstance(tensor, Tensor) and hasattr(tensor, "_spec") and hasattr(tensor, "placements")


def placed(
    tensor: Tensor, batch: BatchPlace | None = None, microbatch: int = 0, flat: FlatRange | None = None
) -> RankShare:
    """What this rank has of `tensor`. A `batch` is given for tensors whose dim 0 is the samples'.

    `flat` says which elements of a flattened parameter a plain tensor is.
    """
    if flat is not None:
        return _of_range(_values(tensor), flat)
    if is_dtensor(tensor):
        return _of_dtensor(tensor, batch, microbatch)
    local = _values(tensor)
    shape = tuple(local.shape) or (1,)
    local = local.reshape(shape)
    start = [0] * len(shape)
    piece = NamedShare()
    if batch is not None:
        start[0] = (microbatch * batch.ranks + batch.rank) * shape[0]
        if batch.ranks > 1:
            words = f"the samples of data-parallel rank {batch.rank} of {batch.ranks}"
            piece = NamedShare(name=f"b{batch.rank}/{batch.ranks}", words=words)
    part = LocalBlock(tuple(slice(0, size) for size in shape), tuple(start))
    return RankShare(local=local, shape=shape, parts=(part,), piece=piece)


def _of_range(local: Tensor, flat: FlatRange) -> RankShare:
    blocks = list(rectangles(flat.shape, flat.begin, flat.end))
    ends = [*itertools.accumulate(math.prod(sizes) for _, sizes in blocks)]
    parts = tuple(
        LocalBlock((slice(end - math.prod(sizes), end),), start, sizes)
        for end, (start, sizes) in zip(ends, blocks, strict=True)
    )
    piece = NamedShare(
        name=f"[{flat.begin}:{flat.end}]",
        words=f"elements {flat.begin} to {flat.end - 1} of the flattened parameter",
    )
    return RankShare(local=local, shape=flat.shape, parts=parts, piece=piece)


def _values(tensor: Tensor) -> Tensor:
    """The tensor as real numbers, outside of any graph; a sparse one with its zeros."""
    values = tensor.detach()
    if hasattr(values, "wait"):  # a collective's result that is still on its way
        values = values.wait()
    if values.layout != torch.strided:
        values = values.values() if values.is_nested else values.to_dense()
    return torch.view_as_real(values) if values.is_complex() else values


def _of_dtensor(tensor: Any, batch: BatchPlace | None, microbatch: int) -> RankShare:  # noqa: ANN401  a DTensor
    mesh, placements = tensor.device_mesh, tuple(tensor.placements)
    shape = tuple(tensor.shape) or (1,)
    local = _values(tensor.to_local())
    local = local if tensor.dim() else local.reshape(shape)
    coordinate = mesh.get_coordinate() or [0] * mesh.ndim
    indices = strided.indices(shape, list(zip(placements, mesh.shape, coordinate, strict=True)))
    factor, names, adds_up = _partial(placements, mesh, coordinate)
    first = 0
    if batch is not None:
        covers = mesh.size() == torch.distributed.get_world_size()
        rank, ranks = (0, 1) if covers else (batch.rank, batch.ranks)
        first = (microbatch * ranks + rank) * shape[0]
        names += [f"b{rank}/{ranks}"] if ranks > 1 else []
    blocks = math.prod(len(_runs(index)) for index in indices)
    parts = tuple(_blocks(indices, first)) if adds_up and blocks <= MOST_PARTS else ()
    spans = ",".join(_span(index) for index in indices)
    at = ", ".join(f"{name} {place}" for name, place in zip(axis_names(mesh), coordinate, strict=True))
    words = f"{at}: {', '.join(map(str, placements))}"
    piece = NamedShare(name="|".join([f"[{spans}]", *names]), words=words)
    axes = tuple(zip(axis_names(mesh), map(int, mesh.shape), strict=True))
    cut = tuple(getattr(placement, "dim", None) for placement in placements)
    return RankShare(local=local, shape=shape, parts=parts, piece=piece, factor=factor, mesh=axes, cut=cut)


def _partial(
    placements: Sequence[Any], mesh: "DeviceMesh", coordinate: Sequence[int]
) -> tuple[float, list[str], bool]:
    """The factor and the names of partial shares, and whether they add up to the tensor at all."""
    factor, names, adds_up = 1.0, [], True
    for axis, placement in enumerate(placements):
        if placement.is_partial():
            adds_up = adds_up and placement.reduce_op in ("sum", "avg")
            factor /= mesh.size(axis) if placement.reduce_op == "avg" else 1
            names.append(f"p{axis}.{coordinate[axis]}")
    return factor, names, adds_up


def axis_names(mesh: "DeviceMesh") -> tuple[str, ...]:
    """The names of a mesh's axes, or their numbers where it has none."""
    return tuple(mesh.mesh_dim_names or (f"axis {axis}" for axis in range(mesh.ndim)))


def _span(index: NDArray[np.intp]) -> str:
    """The indices in words: `0:8`, or several of these."""
    return "+".join(f"{first}:{first + size}" for _, first, size in _runs(index)) or "none"


def _runs(index: NDArray[np.intp]) -> list[tuple[int, int, int]]:
    """The contiguous runs of some indices: where each begins locally and globally, and its length."""
    if not len(index):
        return []
    ends = [0, *(np.flatnonzero(np.diff(index) != 1) + 1).tolist(), len(index)]
    return [(begin, int(index[begin]), end - begin) for begin, end in itertools.pairwise(ends)]


def _blocks(indices: Sequence[NDArray[np.intp]], first: int) -> Iterator[LocalBlock]:
    """The contiguous blocks of a local tensor. `first` is added to the index along dim 0."""
    for block in itertools.product(*(_runs(index) for index in indices)):
        local = tuple(slice(begin, begin + size) for begin, _, size in block)
        yield LocalBlock(
            local, tuple(start + (0 if dim else first) for dim, (_, start, _) in enumerate(block))
        )

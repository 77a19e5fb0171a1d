"""Which elements a rank holds of a DTensor with strided placements (`_StridedShard`).

Such a placement first cuts a dim into `split_factor` chunks; a rank holds its part of each of them, one after
another. `flatten` of a tensor whose second dim is sharded gives one since torch 2.13, and FSDP over tensor
parallelism does in every release: there it says that the later mesh axes cut the dim before.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from difftest.cases.layout import Mesh, chunk
from difftest.judge.outcome import Array

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor, Placement, Shard

Cut: TypeAlias = tuple[Any, int, int]
"""A placement with the size of its mesh axis, and a rank's position on it."""


def gathered(tensor: "DTensor", local: Array) -> Array:
    """The whole tensor, from the `local` part of every rank.

    `full_tensor` of torch 2.9 confuses the rows of a strided tensor when the pieces are uneven.
    """
    import torch
    from torch import distributed

    mesh = tensor.device_mesh
    named = Mesh(tuple(zip(mesh.mesh_dim_names or (), mesh.shape, strict=True)))
    numbers = local.shape[tensor.ndim :]  # two of a complex element
    parts = [held(tensor.shape, tensor.placements, named, rank) for rank in range(named.world_size)]
    shapes = [(*map(len, part), *numbers) for part in parts]
    sizes = [math.prod(shape) * local.itemsize for shape in shapes]
    sent = np.zeros(max(sizes), np.uint8)  # gloo and NCCL gather equal sizes alone
    sent[: local.nbytes] = np.ascontiguousarray(local).reshape(-1).view(np.uint8)
    together = torch.from_numpy(sent)[None].to(mesh.device_type)
    for axis in reversed(range(mesh.ndim)):  # in the order of the ranks, which may be those of a stage
        rows = [torch.empty_like(together) for _ in range(mesh.size(axis))]
        distributed.all_gather(rows, together, mesh.get_group(axis))
        together = torch.cat(rows)
    whole = np.full((*tensor.shape, *numbers), np.nan, local.dtype)
    for part, shape, size, row in zip(parts, shapes, sizes, together.cpu().numpy(), strict=True):
        whole[np.ix_(*part)] = row[:size].view(local.dtype).reshape(shape)
    return whole


def reversed_cuts(placements: "list[Placement]", mesh: Mesh) -> "list[Placement]":
    """The placements of two axes along one dim, which the second axis cuts first."""
    from torch.distributed.tensor.placement_types import _StridedShard

    first, second = placements
    return [_StridedShard(cast("Shard", first).dim, split_factor=mesh.shape[1]), second]


def held(shape: Sequence[int], placements: Sequence[Any], mesh: Mesh, rank: int) -> list[NDArray[np.intp]]:
    """The indices of what `rank` holds, one array for each tensor dim, in the order in which it has them."""
    return indices(shape, list(zip(placements, mesh.shape, mesh.coordinate(rank), strict=True)))


def indices(shape: Sequence[int], cuts: Sequence[Cut]) -> list[NDArray[np.intp]]:
    """The indices of what is held after some `cuts`, in mesh order, on a mesh of any axes."""
    before = [_cuts_last(cuts, axis) for axis in range(len(cuts))]
    held_along = [np.arange(size) for size in shape]
    for axis in sorted(range(len(cuts)), key=before.__getitem__):
        placement, parts, place = cuts[axis]
        if not _is_cut(placement):
            continue
        chunks = 1 if before[axis] else getattr(placement, "split_factor", 1)
        held_along[placement.dim] = _parts(held_along[placement.dim], chunks, parts, place)
    return held_along


def _parts(indices: NDArray[np.intp], chunks: int, parts: int, place: int) -> NDArray[np.intp]:
    """Part `place` of each chunk, which is cut into `parts` parts."""
    pieces = (indices[chunk(len(indices), chunks, number)] for number in range(chunks))
    return np.concatenate([piece[chunk(len(piece), parts, place)] for piece in pieces])


def _cuts_last(cuts: Sequence[Cut], axis: int) -> bool:
    """Whether the placement of a mesh axis cuts what later axes have cut, in the reverse of mesh order.

    With even pieces that is the same as to cut the chunks first; with uneven ones FSDP cuts in this order.
    """
    placement = cuts[axis][0]
    if not is_strided(placement):
        return False
    later = [parts for one, parts, _ in cuts[axis + 1 :] if _is_cut(one) and one.dim == placement.dim]
    return bool(later) and placement.split_factor == math.prod(later)


def _is_cut(placement: Any) -> bool:  # noqa: ANN401  a placement of any release
    return placement.is_shard() or is_strided(placement)  # torch 2.13 does not call a strided one a shard


def is_strided(placement: Any) -> bool:  # noqa: ANN401
    """Whether a placement cuts a dim into chunks before it cuts these."""
    from torch.distributed.tensor.placement_types import _StridedShard

    return isinstance(placement, _StridedShard)

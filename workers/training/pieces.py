"""What ranks hold of a tensor, as data: pieces as numpy arrays, torch's name for the type, and placements.

Frameworks are imported inside functions, because backends are listed on machines that have none.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layout import Partial, Placements, Shard, local_slices
from difftest.cases.layout import Placement as Ours
from difftest.judge.outcome import Array, Sharded

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.tensor import Placement


def sharded(
    tensor: "Tensor",
    placements: Placements,
    pieces: Mapping[int, Array],
    shape: tuple[int, ...] | None = None,
    device: str = "",
) -> Sharded:
    """The pieces of `tensor` by rank. `shape` is the global shape, by default that of its `values`.

    `device` is the type of the device that holds it, by default what the tensor says.
    """
    return Sharded(
        shape=shape_of(tensor) if shape is None else shape,
        dtype=str(tensor.dtype).removeprefix("torch."),
        placements=placements,
        pieces=pieces,
        devices=(device or tensor.device.type,),
    )


def shape_of(tensor: "Tensor") -> tuple[int, ...]:
    """The shape of a tensor's `values`: complex numbers have one more dim."""
    return (*tensor.shape, 2) if tensor.is_complex() else tuple(tensor.shape)


def values(host: "Tensor") -> Array:
    """The values of a host tensor, as `Sharded` has them.

    numpy has no bfloat16: those come as float32, losslessly. Booleans come as int8, whose differences numpy
    computes, and complex numbers as floats with one more dim of size 2. A gradient may be a tensor of zeros
    that torch never allocated, of which `numpy()` alone gives memory of others.
    """
    import torch

    if host.is_complex():
        host = torch.view_as_real(host.resolve_conj())
    narrow = {torch.bfloat16: torch.float32, torch.bool: torch.int8}
    array: Array = host.to(narrow.get(host.dtype, host.dtype)).resolve_neg().clone().numpy()
    return array


def own_rows(case: Case, rank: int, tensor: "Tensor") -> "Tensor":
    """The part of a host batch that `rank` is fed."""
    return tensor[local_slices(tuple(tensor.shape), case.layout.batch, case.layout.mesh, rank)]


def rows_by_rank(case: Case) -> list[int]:
    """How many rows of an accumulation part each rank is fed."""
    layout = case.layout
    slices = (
        local_slices((case.part_rows,), layout.batch, layout.mesh, rank)[0] for rank in range(case.world_size)
    )
    return [rows.stop - rows.start for rows in slices]


def batches_of_ranks(case: Case) -> list[slice]:
    """The rows that are together on a rank, each once; ranks along other axes than the batch's share them."""
    layout = case.layout
    rows = (
        local_slices((case.part_rows,), layout.batch, layout.mesh, rank)[0] for rank in range(case.world_size)
    )
    return [
        slice(*pair) for pair in dict.fromkeys((row.start, row.stop) for row in rows) if pair[0] < pair[1]
    ]


def global_shape(case: Case, local: "Tensor", placements: Placements) -> tuple[int, ...]:
    """The global shape of a plain local tensor.

    Such a tensor that is expected in pieces can only be an output, whose rows and positions follow from the
    case.
    """
    whole = (case.part_rows, case.model.sequence)
    return tuple(whole[dim] if Shard(dim) in placements else size for dim, size in enumerate(shape_of(local)))


def full(tensor: "Tensor") -> "Tensor":
    """The whole of a DTensor; any other tensor as it is."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def dtensor_placements(placements: Placements) -> "list[Placement]":
    """The placements as DTensor has them."""
    return [_dtensor_placement(placement) for placement in placements]


def _dtensor_placement(placement: "Ours") -> "Placement":
    from torch.distributed import tensor as distributed

    match placement:
        case Shard(dim=dim):
            return distributed.Shard(dim)
        case Partial():
            return distributed.Partial(placement.reduction)
        case _:
            return distributed.Replicate()

"""Every rank's share of a tensor that is placed as a partial sum. Their sum is the tensor to the last bit."""

from typing import TYPE_CHECKING

from difftest.cases.layout import Mesh, Partial, Placements, local_slices

if TYPE_CHECKING:
    from torch import Tensor


def share(tensor: "Tensor", placements: Placements, mesh: Mesh, rank: int) -> "Tensor":
    """What `rank` holds of a whole float tensor: its piece, and of that its share over every partial axis.

    An axis of one rank has nothing to share. Otherwise the first rank holds twice the value, the second minus
    the value, and the others nothing: no operator but a linear one may be applied to such shares.
    """
    piece = tensor[local_slices(tuple(tensor.shape), placements, mesh, rank)]
    for placement, ranks, index in zip(placements, mesh.shape, mesh.coordinate(rank), strict=True):
        if placement == Partial() and ranks > 1:
            piece = _shared(piece, index)
    return piece.clone()


def _shared(tensor: "Tensor", index: int) -> "Tensor":
    """The share of the rank at `index` of an axis.

    A zero, and what has no finite double, is the first rank's alone. Minus zero is the nothing that leaves
    every sum as it is.
    """
    import torch

    double = tensor + tensor
    divided = double.isfinite() & (tensor != 0)
    nothing = torch.full_like(tensor, -0.0)
    match index:
        case 0:
            return torch.where(divided, double, tensor)
        case 1:
            return torch.where(divided, -tensor, nothing)
    return nothing

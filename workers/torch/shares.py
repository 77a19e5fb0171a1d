"""Every rank's share of a tensor that is placed as a partial sum, or as a mean, the greatest or the least.

The shares give the tensor to the last bit.
"""

from typing import TYPE_CHECKING

from difftest.cases.layout import Mesh, Partial, Placements, Reduction, local_slices

if TYPE_CHECKING:
    from torch import Tensor


def share(tensor: "Tensor", placements: Placements, mesh: Mesh, rank: int) -> "Tensor":
    """What `rank` holds of a whole float tensor: its piece, and of that its share over every partial axis.

    An axis of one rank has nothing to share. Otherwise the first rank holds twice the value, the second minus
    the value, and the others nothing: no operator but a linear one may be applied to such shares. Shares of a
    mean are as many times greater as there are ranks. The greatest and the least are now one rank's, now the
    next one's, and the others hold numbers of one sign.
    """
    piece = tensor[local_slices(tuple(tensor.shape), placements, mesh, rank)]
    for placement, ranks, index in zip(placements, mesh.shape, mesh.coordinate(rank), strict=True):
        if isinstance(placement, Partial) and ranks > 1:
            piece = _shared(piece, placement.reduction, ranks, index)
    return piece.clone()


def _shared(tensor: "Tensor", reduction: Reduction, ranks: int, index: int) -> "Tensor":
    """The share of the rank at `index` of an axis of `ranks`."""
    if reduction in {"sum", "avg"}:
        return _of_sum(tensor, index, ranks if reduction == "avg" else 1)
    import torch

    own = torch.arange(tensor.numel()).view(tensor.shape) % ranks == index
    beyond = tensor.abs() + 1
    return torch.where(own, tensor, -beyond if reduction == "max" else beyond)


def _of_sum(tensor: "Tensor", index: int, times: int) -> "Tensor":
    """The share of the rank at `index` of an axis.

    A zero, and what has no finite double, is the first rank's alone. Minus zero is the nothing that leaves
    every sum as it is.
    """
    import torch

    single = tensor * times
    double = single + single
    divided = double.isfinite() & (tensor != 0)
    nothing = torch.full_like(tensor, -0.0)
    match index:
        case 0:
            return torch.where(divided, double, single)
        case 1:
            return torch.where(divided, -single, nothing)
    return nothing

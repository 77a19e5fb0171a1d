"""How a program's operands lie in memory when an operator gets them, made differentiably."""

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from difftest.cases.layers.operator import Memory

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def laid_out(tensor: Tensor, memory: Memory) -> Tensor:
    """A copy of `tensor` that lies in memory as `memory` says; `expanded` repeats its first slice."""
    match memory:
        case "transposed":
            return tensor.transpose(-1, -2).clone(memory_format=torch.contiguous_format).transpose(-1, -2)
        case "strided":
            return torch.stack((tensor, tensor), -1).select(-1, 0)
        case "expanded":
            return tensor.narrow(0, 0, 1).expand(tensor.shape) if tensor.shape[0] else tensor.clone()
        case "contiguous":
            return tensor.clone()


def pieces_laid_out(tensor: Tensor, memory: Memory) -> Tensor:
    """The same for a DTensor, by way of its local pieces; `expanded` repeats a slice of the whole.

    DTensor's own operators do not do. With torch 2.9.0 `select` of a replica writes its result's shape into
    the cached shape of its argument, and the gradient of `select` has the shape of its result.
    """
    from torch.distributed.tensor import DTensor, Replicate

    if memory in {"expanded", "contiguous"}:
        return laid_out(tensor, memory)
    held = cast("DTensor", tensor)
    # Every rank has the whole gradient of a partial sum, as every share is added to it with the factor 1.
    gradient = [Replicate() if placement.is_partial() else placement for placement in held.placements]
    local = laid_out(held.to_local(grad_placements=gradient), memory)
    stride = laid_out(torch.empty(held.shape, device="meta"), memory).stride()
    return DTensor.from_local(
        local, held.device_mesh, held.placements, run_check=False, shape=held.shape, stride=stride
    )

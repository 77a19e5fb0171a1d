"""Gradient accumulation by torch_xla's own API.

It is one computation on the device that loops over the parts of a batch, forward and backward. The API
returns the sum of the losses; the outputs are carried through the loop in one tensor, in which each part
writes its own.
"""

from typing import TYPE_CHECKING

from difftest.cases.layout import Replicate, Shard
from workers.xla import sharding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from workers.training.session import Forward, Outputs


def accumulate(
    world: sharding.World, module: "nn.Module", parts: "Sequence[Sequence[Tensor]]", forward: "Forward"
) -> "tuple[list[Outputs], Tensor]":
    """Runs `forward` and its backward over `parts` (equal shapes, on the host).

    The results are every part's output, and the sum of the losses; gradients are left in the module's
    parameters. The API divides every loss by the number of parts, so each is multiplied by it: here losses
    are to be added.
    """
    import torch
    from torch_xla.experimental.gradient_accumulation import gradient_accumulation

    count = len(parts)
    # A dim of parts precedes the batch's own dims.
    placements = tuple(
        Shard(p.dim + 1) if isinstance(p, Shard) else Replicate() for p in world.case.layout.batch
    )
    stacked = [
        world.mark(torch.stack(list(same)).to(world.device), placements) for same in zip(*parts, strict=True)
    ]
    index = torch.arange(count).to(world.device)

    def step(number: "Tensor", *rest: "Tensor") -> "tuple[Tensor, Tensor]":
        *part, outputs = rest
        outputs_of_part, loss = forward(*part)
        output = outputs_of_part[""]
        own = (torch.arange(count, device=world.device) == number).reshape(count, *[1] * output.dim())
        return loss * count, torch.where(own, output.detach().unsqueeze(0), outputs)

    # The shape of one part's output: (rows, [sequence,] outputs)
    model = world.case.model
    shape = (len(parts[0][0]), *((model.sequence,) if model.sequence else ()), model.outputs)
    empty = world.mark(
        torch.zeros(count, *shape, dtype=getattr(torch, world.case.dtype)).to(world.device), placements
    )
    total, outputs = gradient_accumulation(step, (index, *stacked), module, empty)
    return [{"": output} for output in outputs.unbind(0)], total

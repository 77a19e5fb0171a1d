"""DTensor itself: `distribute_tensor` for every parameter and for the batch, and torch's rules decide the rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layout import Placements, Shard, replicated
from workers import sides
from workers.torch import process_groups
from workers.training import redistribution

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.distributed.tensor import Placement

    from workers.training.session import Session

SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, stands_for_side=True)
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment


def unsupported(case: Case) -> str | None:
    """Every layout can be written as DTensor placements; where an operator has no rule, that is a result. Not so collectives."""
    return redistribution.refusal(case)


@contextmanager
def session(case: Case, rank: int, rendezvous: str) -> Iterator["Session"]:
    """Parameters, buffers and batch become DTensors on the layout's mesh; losses and gradients are global then."""
    from workers.torch import flash
    from workers.training.session import Session

    with process_groups.joined(case, rank, rendezvous) as member:
        facts = process_groups.describe(member)
        yield Session(
            dtype=process_groups.dtype_of(case),
            place=partial(_place, member),
            feed=lambda tensor: _distributed(member, tensor, case.layout.batch),
            read=partial(process_groups.read, member),
            total=_total,
            operators=replace(flash.operators(member.case, facts), move=redistribution.mover(member.mesh)),
            environment=facts,
        )


def theirs(placements: Placements) -> "list[Placement]":
    """Our placements as DTensor's."""
    from torch.distributed import tensor as distributed

    return [distributed.Shard(p.dim) if isinstance(p, Shard) else distributed.Replicate() for p in placements]


def _place(member: process_groups.Member, module: "nn.Module") -> "nn.Module":
    """Replaces every parameter once, wherever it is used (a tied weight stays one), and every buffer."""
    from torch import nn

    layout, placed = member.case.layout, {}
    for name, parameter in module.named_parameters():
        placed[parameter] = nn.Parameter(_distributed(member, parameter.detach(), layout.parameters[name]))
    for inner in module.modules():
        for name, parameter in inner.named_parameters(recurse=False):
            inner.register_parameter(name, placed[parameter])
        for name, buffer in inner.named_buffers(recurse=False):
            inner.register_buffer(
                name, _distributed(member, buffer, replicated(layout.mesh)), persistent=False
            )
    return module


def _distributed(member: process_groups.Member, tensor: "Tensor", placements: Placements) -> "Tensor":
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(member.device), member.mesh, theirs(placements))


def _total(loss: "Tensor") -> "Tensor":
    from torch.distributed.tensor import DTensor

    return loss.full_tensor() if isinstance(loss, DTensor) else loss

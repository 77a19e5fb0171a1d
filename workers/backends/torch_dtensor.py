"""DTensor: `distribute_tensor` for every parameter and for the batch.

DTensor's rules for operators decide the rest.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec import structs

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layout import Placements, replicated
from difftest.cases.reversed_cuts import cut_in_reverse
from workers import sides
from workers.torch import devices, process_groups, strided
from workers.torch.shares import share
from workers.training import redistribution, regions
from workers.training.pieces import dtensor_placements, full

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.distributed.tensor import DTensor, Placement

    from workers.training.session import Session

TITLE = "DTensor"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, stands_for_side=True)
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment


def unsupported(case: Case) -> str | None:
    """Why DTensors cannot express `case`, or None.

    Every layout can be written as DTensor placements, and an operator without a rule is a result of the run.
    Only collectives are not for DTensors.
    """
    return redistribution.refusal(case)


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins and makes DTensors of parameters, buffers and batch, so that losses and gradients are global."""
    from torch.distributed.tensor.parallel import loss_parallel

    from workers.torch import flash
    from workers.torch.readers import Readers
    from workers.torch.rules import Rules, forget
    from workers.training.memory import pieces_laid_out
    from workers.training.session import Session

    forget(case)
    with process_groups.joined(case, rank, rendezvous, kind=kind) as member, _beside_plain_tensors(case):
        facts, rules, readers = process_groups.describe(member), Rules(), Readers()
        apart = case.cut_by.loss != "whole" and member.mesh.ndim == 1  # loss_parallel takes one mesh axis
        yield Session(
            dtype=process_groups.dtype_of(case),
            place=partial(_place, member),
            feed=lambda tensor: _distributed(member, tensor, case.layout.batch),
            read=partial(process_groups.read, member, readers=readers),
            device=member.device.type,
            total=full,
            loss=_loss if apart else None,
            quiet=(lambda _module, _last: loss_parallel()) if apart else lambda _module, _last: nullcontext(),
            operators=replace(
                flash.operators(member.case, facts),
                move=redistribution.mover(member.mesh, case.forms),
                lay_out=pieces_laid_out,
            ),
            environment=facts,
            observe=rules.observe,
            events=lambda: structs.replace(rules.events(), misread=readers.misread),
        )


@contextmanager
def _beside_plain_tensors(case: Case) -> Iterator[None]:
    """Takes the tensors that a module makes itself, such as a mask, and the weights of classes, for replicas.

    Most modules make none that are not DTensors; half of the cases of a user's that does not are without.
    """
    from torch.distributed.tensor.experimental import implicit_replication

    weighs = case.forms.torch_loss and case.cut_by.weighted
    makes = weighs or any(layer.MAKES_TENSORS for _, layer in walk(case.model.layers))
    with implicit_replication() if makes and not case.forms.no_implicit_replication else nullcontext():
        yield


def _place(member: process_groups.Member, module: "nn.Module") -> "nn.Module":
    """Replaces every buffer, and every parameter once: a tied weight stays one parameter."""
    from torch import nn

    layout, reverse, placed = member.case.layout, cut_in_reverse(member.case), {}
    for name, parameter in module.named_parameters():
        tensor = _distributed(member, parameter.detach(), layout.parameters[name], reverse=name in reverse)
        placed[parameter] = nn.Parameter(tensor, requires_grad=parameter.requires_grad)
    for path, inner in module.named_modules():
        for name, parameter in inner.named_parameters(recurse=False):
            inner.register_parameter(name, placed[parameter])
        for name, buffer in inner.named_buffers(recurse=False):
            placements = layout.parameters.get(f"{path}.{name}", replicated(layout.mesh))
            kept = name not in inner._non_persistent_buffers_set  # noqa: SLF001  no public name
            inner.register_buffer(name, _distributed(member, buffer, placements), persistent=kept)
    if member.case.cut_by.sequence:
        there, back = (dtensor_placements(at) for at in (regions.in_sequence(member.case), layout.batch))
        for _, between in regions.between(module):
            between.register_forward_hook(partial(_through, there, back))
    return module


def _distributed(
    member: process_groups.Member, tensor: "Tensor", placements: Placements, *, reverse: bool = False
) -> "Tensor":
    """A host tensor that every rank has, as a DTensor.

    The ranks of a program each cut their own, because `distribute_tensor` has no partial sums, and fails at
    some empty pieces (torch 2.9.0). With `reverse` two axes cut one dim in the reverse of mesh order.
    """
    from torch.distributed.tensor import DTensor, distribute_tensor

    case, where = member.case, dtensor_placements(placements)
    if not case.model.is_program:
        return distribute_tensor(tensor.to(member.device), member.mesh, where)
    if reverse:
        where = strided.reversed_cuts(where, case.layout.mesh)
        own = strided.held(tensor.shape, where, case.layout.mesh, member.rank)
        piece = tensor[np.ix_(*own)].to(member.device)
    else:
        piece = share(tensor, placements, case.layout.mesh, member.rank).to(member.device)
    shape, stride = tensor.shape, tensor.stride()
    return DTensor.from_local(piece, member.mesh, where, run_check=False, shape=shape, stride=stride)


def _through(
    there: "list[Placement]",
    back: "list[Placement]",
    _module: "nn.Module",
    _inputs: object,
    output: "DTensor",
) -> "DTensor":
    """An activation by way of other placements: DTensor has no rule for a product of a cut sequence."""
    return output.redistribute(placements=there).redistribute(placements=back)


def _loss(case: Case, output: "Tensor", targets: "Tensor", count: int) -> "Tensor":
    """The loss of the output's classes, cut over the only mesh axis."""
    from torch.distributed.tensor import Shard

    from workers.torch import parallel_loss

    cut = cast("DTensor", output).redistribute(placements=[Shard(output.dim() - 1)])
    return parallel_loss.loss_of(case, cut, targets, count)

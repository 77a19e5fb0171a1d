"""SimpleFSDP, as torchtitan trains by it: parameters are DTensors that every use gathers, traced as a whole.

Reading a parameter of a layer redistributes and unwraps it, and its gradient is the average over all ranks.
TorchDynamo sees the collectives, which it does not in the hooks of `fully_shard`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from difftest.cases.case import Case
from difftest.cases.wrapping import Sharding
from workers import sides
from workers.backends import torch_fsdp
from workers.torch import compiled, process_groups
from workers.training.pieces import dtensor_placements

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.distributed.tensor import DTensor

    from workers.training.session import Session

TITLE = "SimpleFSDP"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, only_named=True)
PRELOAD = compiled.PRELOAD
processes = process_groups.processes
environment = process_groups.environment


def unsupported(case: Case) -> str | None:
    """Why FSDP2 does not take the case, or does with options that only `fully_shard` has; or None."""
    if case.sharded_by != Sharding():
        return "SimpleFSDP has none of the options of fully_shard"
    return torch_fsdp.unsupported(case)


@contextmanager
def _eager(case: Case, rank: int, rendezvous: str, kind: process_groups.Devices) -> Iterator["Session"]:
    """Joins the process group and shards over the layout's mesh."""
    with process_groups.joined(case, rank, rendezvous, kind=kind) as member:
        yield process_groups.local_session(member, partial(_place, member))


session = compiled.sessions(_eager, compiled.traced)


def _place(member: process_groups.Member, module: "nn.Module") -> "nn.Module":
    """Distributes every parameter once, and gives every layer a class that gathers them on use."""
    from torch import nn
    from torch.distributed.tensor import distribute_tensor

    placed = {}
    for name, parameter in module.to(member.device).named_parameters():
        where = dtensor_placements(member.case.layout.parameters[name])
        tensor = distribute_tensor(parameter.detach(), member.mesh, where)
        placed[parameter] = nn.Parameter(tensor, requires_grad=parameter.requires_grad)
    for layer in module.modules():
        own = dict(layer.named_parameters(recurse=False))
        for name, parameter in own.items():
            layer.register_parameter(name, placed[parameter])
        gathering = {name: property(partial(_gathered, name)) for name in own}
        layer.__class__ = type(f"SimpleFSDP{type(layer).__name__}", (type(layer),), gathering)
    return module


def _gathered(name: str, layer: "nn.Module") -> "Tensor":
    from torch.distributed.tensor import Partial, Replicate

    parameter = cast("DTensor", layer._parameters[name])  # noqa: SLF001  the property hides it
    axes = parameter.device_mesh.ndim
    whole = parameter.redistribute(placements=[Replicate()] * axes)
    return whole.to_local(grad_placements=[Partial("avg")] * axes)

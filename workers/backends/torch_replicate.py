"""`replicate` as FSDP2 has it: whole parameters on every rank, as DTensors, and gradients averaged.

torchtitan replicates so. It is `fully_shard` whose mesh has one rank to shard over, and takes its options.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.gathered import gathered_alone
from workers import sides
from workers.backends import torch_ddp, torch_fsdp
from workers.torch import devices, process_groups

if TYPE_CHECKING:
    from torch import nn

    from workers.training.session import Session

TITLE = "replicate by FSDP2"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, only_named=True)
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment


def unsupported(case: Case) -> str | None:
    """Why DDP does not take the layout, or `replicate` not what the program does with it; or None."""
    if case.forms.optimizer_before:
        return "replicate replaces the parameters, so that the optimizer is made after it"
    if case.replication.own_weights:
        return "replicate keeps the weights that a rank starts with"
    return torch_ddp.unsupported(case)


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins the process group and replicates the module; all ranks are one group."""
    with process_groups.joined(case, rank, rendezvous, kind=kind) as member:
        yield process_groups.local_session(member, partial(_place, member), partial(torch_fsdp.quiet, case))


def _place(member: process_groups.Member, module: "nn.Module") -> "nn.Module":
    """`replicate` of the residual blocks and then of the rest."""
    from torch.distributed._composable.replicate_with_fsdp import replicate
    from torch.distributed.device_mesh import init_device_mesh

    module, ranks = module.to(member.device), member.case.world_size
    if "mesh" in signature(replicate).parameters:
        mesh = {"mesh": init_device_mesh(member.device.type, (ranks,), mesh_dim_names=("replicate",))}
    else:  # torch 2.9 to 2.10
        names = ("replicate", "shard")
        mesh = {"device_mesh": init_device_mesh(member.device.type, (ranks, 1), mesh_dim_names=names)}
    for path in gathered_alone(member.case):
        replicate(module.get_submodule(path), **mesh)
    return replicate(module, **mesh)

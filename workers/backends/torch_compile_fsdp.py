"""`torch.compile` around what `fully_shard` made of the module: TorchDynamo breaks graphs at FSDP's hooks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from workers import sides
from workers.backends import torch_fsdp
from workers.torch import compiled, devices, process_groups

if TYPE_CHECKING:
    from workers.training.session import Session

TITLE = "torch.compile over FSDP2"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, only_named=True)
PRELOAD = compiled.PRELOAD
processes = process_groups.processes
environment = process_groups.environment
unsupported = torch_fsdp.unsupported


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins and shards as FSDP2 does, and compiles what that gives; the loss stays outside."""
    with torch_fsdp.session(case, rank, rendezvous, kind) as eager:
        yield compiled.around(eager, case)

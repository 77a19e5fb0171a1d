"""`torch.compile` around a module of DTensors."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from workers import sides
from workers.backends import torch_dtensor
from workers.torch import compiled, devices, process_groups
from workers.training.refusals import for_modules_only

if TYPE_CHECKING:
    from workers.training.session import Session

TITLE = "torch.compile over DTensor"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, only_named=True)
PRELOAD = compiled.PRELOAD
processes = process_groups.processes
environment = process_groups.environment
unsupported = for_modules_only(torch_dtensor.unsupported)


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins and distributes as `torch_dtensor` does, and traces what that gives; the loss stays outside."""
    with torch_dtensor.session(case, rank, rendezvous, kind) as eager:
        yield compiled.around(eager, case, compiled.traced)

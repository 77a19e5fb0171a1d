"""`torch.compile` around what `parallelize_module` made of the module, beside `fully_shard` on other axes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from workers import sides
from workers.backends import torch_tp
from workers.torch import compiled, devices, process_groups

if TYPE_CHECKING:
    from workers.training.session import Session

TITLE = "torch.compile over parallelize_module"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, only_named=True)
PRELOAD = compiled.PRELOAD
processes = process_groups.processes
environment = process_groups.environment
unsupported = torch_tp.unsupported


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins and cuts as `torch_tp` does, and traces what that gives; the loss stays outside."""
    with torch_tp.session(case, rank, rendezvous, kind) as eager:
        yield compiled.around(eager, case, compiled.traced)

"""`torch.compile` around `DistributedDataParallel`: TorchDynamo cuts the graph at DDP's buckets.

Inductor compiles the pieces, to C++ on a CPU and to Triton on a GPU. What is compiled must equal eager torch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from workers import sides
from workers.backends import torch_ddp
from workers.torch import compiled, devices, process_groups

if TYPE_CHECKING:
    from workers.training.session import Session

TITLE = "torch.compile over DDP"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, only_named=True)
PRELOAD = compiled.PRELOAD
processes = process_groups.processes
environment = process_groups.environment
unsupported = torch_ddp.unsupported


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins as DDP does, and compiles the wrapper; the loss stays outside."""
    with torch_ddp.session(case, rank, rendezvous, kind) as eager:
        yield compiled.around(eager, case)

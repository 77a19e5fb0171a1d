"""`torch.compile` around `DistributedDataParallel`: TorchDynamo cuts the graph at DDP's buckets.

Inductor compiles the pieces, to C++ on a CPU and to Triton on a GPU. What is compiled must equal eager torch.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from workers import sides
from workers.backends import torch_ddp
from workers.torch import compiled, devices, process_groups

if TYPE_CHECKING:
    from torch import nn

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
    graphs = compiled.Graphs(syncs_a_step=case.training.accumulation + 1)
    with torch_ddp.session(case, rank, rendezvous, kind) as eager:
        yield replace(
            eager,
            place=partial(_compiled, eager),
            quiet=lambda module, last: eager.quiet(compiled.inner(module), last),
            observe=lambda *_: nullcontext(),
            sync=graphs.sync,
            events=graphs.events,
        )


def _compiled(eager: "Session", module: "nn.Module") -> "nn.Module":
    """The placed module under `torch.compile`.

    `Module.compile` would skip a module of torch's own, such as the wrapper, without a word (torch 2.9).
    """
    import torch

    placed: nn.Module = torch.compile(eager.place(module))  # type: ignore[assignment]
    return placed

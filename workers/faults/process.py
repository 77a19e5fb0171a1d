"""Defects that end or stop a process: aborts, segmentation faults, hangs, and a rank that waits for the others in vain."""

import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import distributed, nn

from difftest.cases.case import Case
from difftest.judge.outcome import Stage
from workers.faults import BACKEND, SHARDING, Fault
from workers.isolate.limits import MOST_SECONDS
from workers.training.session import Session

EVERYWHERE = ("torch_ddp", "torch_dtensor", "xla_spmd")
FOREVER_SECONDS = 2 * MOST_SECONDS


def _at_backward(
    act: Callable[[], object], *, rank: int | None = None
) -> Callable[[Session, Case, int], Session]:
    """Plants an act after the first backward, on one rank or on all."""

    def plant(session: Session, _case: Case, mine: int) -> Session:
        def after(stage: Stage, _step: int, _module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
            if stage is Stage.BACKWARD and rank in (None, mine):
                act()

        return replace(session, after=after)

    return plant


def _fail() -> None:
    msg = "planted failure"
    raise RuntimeError(msg)


def _reduce_alone() -> None:
    distributed.all_reduce(torch.zeros(1, device="cuda" if distributed.get_backend() == "nccl" else "cpu"))


def _several(case: Case) -> bool:
    return case.world_size > 1


FAULTS = (
    Fault(
        name="abort",
        about="the process aborts",
        backends=EVERYWHERE,
        blame=BACKEND,
        reaches=lambda _case: True,
        plant=_at_backward(os.abort),
    ),
    Fault(
        name="segmentation_fault",
        about="the process reads address 0",
        backends=EVERYWHERE,
        blame=BACKEND,
        reaches=lambda _case: True,
        plant=_at_backward(lambda: ctypes.string_at(0)),
    ),
    Fault(
        name="exception",
        about="the backend raises",
        backends=EVERYWHERE,
        blame=BACKEND,
        reaches=lambda _case: True,
        plant=_at_backward(_fail),
    ),
    Fault(
        name="hang",
        about="the process never comes back",
        backends=EVERYWHERE,
        blame=BACKEND,
        reaches=lambda _case: True,
        plant=_at_backward(lambda: time.sleep(FOREVER_SECONDS)),
    ),
    Fault(
        name="deadlock",
        about="one rank enters a collective that the others do not",
        backends=("torch_ddp", "torch_fsdp", "torch_dtensor"),
        blame=SHARDING,
        reaches=_several,
        plant=_at_backward(_reduce_alone, rank=1),
    ),
)

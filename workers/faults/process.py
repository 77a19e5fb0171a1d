"""Planted faults that end or stop a process: aborts, segmentation faults, hangs, deadlocks."""

import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import distributed, nn

from difftest.cases.case import Case
from difftest.judge.stage import Stage
from workers.deadlines import MOST_SECONDS
from workers.faults import BACKEND, EVERYWHERE, SHARDING, planted
from workers.training.session import Session

FOREVER_SECONDS = 2 * MOST_SECONDS


def _at_backward(session: Session, act: Callable[[], object]) -> Session:
    """The session in which `act` follows the first backward."""

    def after(stage: Stage, _step: int, _module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.BACKWARD:
            act()

    return replace(session, after=after)


@planted(about="the process aborts", backends=EVERYWHERE, blame=BACKEND)
def abort(session: Session, _case: Case, _rank: int) -> Session:
    """Ends in SIGABRT, as a failed check in C++ does."""
    return _at_backward(session, os.abort)


@planted(about="the process reads address 0", backends=EVERYWHERE, blame=BACKEND)
def segmentation_fault(session: Session, _case: Case, _rank: int) -> Session:
    """Ends in SIGSEGV."""
    return _at_backward(session, lambda: ctypes.string_at(0))


@planted(about="the backend raises", backends=EVERYWHERE, blame=BACKEND)
def exception(session: Session, _case: Case, _rank: int) -> Session:
    """Raises in Python."""

    def fail() -> None:
        msg = "planted failure"
        raise RuntimeError(msg)

    return _at_backward(session, fail)


@planted(about="the process never comes back", backends=EVERYWHERE, blame=BACKEND)
def hang(session: Session, _case: Case, _rank: int) -> Session:
    """Sleeps past every deadline."""
    return _at_backward(session, lambda: time.sleep(FOREVER_SECONDS))


@planted(
    about="one rank enters a collective that the others do not",
    backends=("torch_ddp", "torch_fsdp", "torch_dtensor"),
    blame=SHARDING,
    reaches=lambda case: case.world_size > 1,
)
def deadlock(session: Session, _case: Case, rank: int) -> Session:
    """Rank 1 reduces alone."""

    def reduce_alone() -> None:
        distributed.all_reduce(torch.zeros(1, device=session.device))

    return _at_backward(session, reduce_alone) if rank == 1 else session

"""Planted faults of checkpoints that go through another layout."""

import torch
from torch import nn

from difftest.cases.case import Case
from difftest.cases.feature import has
from workers.faults import BACKEND, planted
from workers.faults.features import replacing
from workers.training.session import Session

BACKENDS, PATHS = ("torch_ddp", "torch_fsdp", "torch_dtensor"), ("states",)


@planted(
    paths=PATHS,
    about="a checkpoint that goes through another layout is rounded to bfloat16",
    backends=BACKENDS,
    blame=BACKEND,
    reaches=lambda case: has(case, "moved_checkpoint") and case.dtype == "float32",
)
def moved_in_bfloat16(session: Session, _case: Case, _rank: int) -> Session:
    """Whatever dtype the files have."""
    from workers.training.features import moved_checkpoint

    right = moved_checkpoint.loaded

    def spoiled(module: nn.Module, optimizer: torch.optim.Optimizer, files: str, folder: str) -> None:
        right(module, optimizer, files, folder)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(parameter.bfloat16())

    return replacing(session, moved_checkpoint, "loaded", spoiled)


@planted(
    paths=PATHS,
    about="a checkpoint that goes through another layout loses the optimizer's state",
    backends=BACKENDS,
    blame=BACKEND,
    reaches=lambda case: has(case, "moved_checkpoint") and case.training.optimizer in {"adam", "adamw"},
)
def moved_without_moments(session: Session, _case: Case, _rank: int) -> Session:
    """The moments are zero."""
    from workers.training.features import moved_checkpoint

    right = moved_checkpoint.loaded

    def spoiled(module: nn.Module, optimizer: torch.optim.Optimizer, files: str, folder: str) -> None:
        right(module, optimizer, files, folder)
        for state in optimizer.state.values():
            state["exp_avg"].zero_()

    return replacing(session, moved_checkpoint, "loaded", spoiled)

"""Planted faults of checkpoints that go through another layout."""

import torch
from torch import nn

from difftest.cases.case import Case
from difftest.cases.feature import has
from workers.faults import BACKEND, planted
from workers.faults.features import replacing
from workers.training import spmd_checkpoints
from workers.training.features import TrainingProgress
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


@planted(
    paths=PATHS,
    about="what SPMD loads from a checkpoint of another layout is a row off",
    backends=("xla_spmd",),
    blame=BACKEND,
    reaches=lambda case: has(case, "moved_checkpoint"),
)
def moved_a_row_off(session: Session, _case: Case, _rank: int) -> Session:
    """Rows are given on, the last one to the first."""
    right = spmd_checkpoints.put_back

    def spoiled(progress: TrainingProgress, state: spmd_checkpoints.State) -> None:
        rolled = {name: one.roll(1, 0) if one.dim() else one for name, one in state["model"].items()}
        right(progress, {**state, "model": rolled})

    return replacing(session, spmd_checkpoints, "put_back", spoiled)

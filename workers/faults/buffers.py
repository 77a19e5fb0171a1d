"""Planted faults of buffers: what a module keeps beside its parameters."""

from dataclasses import replace

import torch
from torch import nn

from difftest.cases.case import Case
from difftest.judge.stage import Stage
from workers.faults import BACKEND, of_blocks
from workers.training.session import Session


def _has_floats(case: Case) -> bool:
    dtypes = case.model.dtypes(case.dtype)
    return any(dtypes[name] == case.dtype for name in case.model.statistics())


@of_blocks(
    about="the first buffer grows by a part in eight after the last update",
    blame=BACKEND,
    reaches=_has_floats,
)
def buffer_grows(session: Session, case: Case, _rank: int) -> Session:
    """On every rank alike, and too late for any output to show it."""

    def after(stage: Stage, step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.UPDATE and step == case.training.steps - 1:
            first = next(buffer for buffer in module.buffers() if buffer.is_floating_point())
            with torch.no_grad():
                first.mul_(1.125)

    return replace(session, after=after)

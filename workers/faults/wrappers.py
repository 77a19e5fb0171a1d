"""Planted faults of `fully_shard` with its options.

Each is of one option, and no case without that option can show it.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from difftest.cases.case import Case
from difftest.cases.gathered import gathered_together
from difftest.judge.stage import Stage
from workers.faults import BACKEND, SHARDING, planted
from workers.training.session import Session

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

FSDP = ("torch_fsdp",)


@planted(
    paths=("wrappers",),
    about="gradients are divided twice by a factor",
    backends=FSDP,
    blame=BACKEND,
    reaches=lambda case: (case.sharded_by.gradient_divide_factor or 1.0) != 1.0 and case.sharded_by.summed,
)
def divided_twice(session: Session, case: Case, _rank: int) -> Session:
    """By that of the case."""
    factor = case.sharded_by.gradient_divide_factor or 1.0
    return replace(session, scale=session.scale / factor)


@planted(
    paths=("wrappers",),
    about="gradients that were scattered are not reduced over replicas",
    backends=FSDP,
    blame=SHARDING,
    reaches=lambda case: (
        case.sharded_by.synced == "scattered"
        and case.training.accumulation > 1
        and case.layout.mesh.size("dp_replicate") > 1
    ),
)
def replicas_left_out(session: Session, _case: Case, _rank: int) -> Session:
    """In no accumulation part."""

    def quiet(module: nn.Module, _last: bool) -> AbstractContextManager[None]:  # noqa: FBT001  the session's
        return session.quiet(module, False)  # noqa: FBT003  the session's signature

    return replace(session, quiet=quiet)


@planted(
    paths=("wrappers",),
    about="a part that is reduced by itself replaces the gradients before it",
    backends=FSDP,
    blame=BACKEND,
    reaches=lambda case: case.sharded_by.synced == "every" and case.training.accumulation > 1,
)
def parts_replaced(session: Session, _case: Case, _rank: int) -> Session:
    """Only where every part is reduced; gradients of earlier parts are dropped."""

    @contextmanager
    def quiet(module: nn.Module, last: bool) -> Iterator[None]:  # noqa: FBT001  the session's signature
        module.zero_grad()
        with session.quiet(module, last):
            yield

    return replace(session, quiet=quiet)


@planted(
    paths=("wrappers",),
    about="what stays gathered after the forward pass is not gathered again after an update",
    backends=FSDP,
    blame=BACKEND,
    reaches=lambda case: case.sharded_by.reshard_after_forward is False and case.training.steps > 1,
)
def gathered_stale(session: Session, _case: Case, _rank: int) -> Session:
    """The second step computes with the weights of the first."""

    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        cast("FSDPModule", placed).set_reshard_after_backward(False)
        return placed

    return replace(session, place=place)


@planted(
    paths=("wrappers",),
    about="the gradients of the last module of a group are reduced twice",
    backends=FSDP,
    blame=SHARDING,
    reaches=lambda case: bool(gathered_together(case)) and case.layout.data_ranks > 1,
)
def group_reduced_twice(session: Session, case: Case, _rank: int) -> Session:
    """They are as many times too great as there are ranks with rows of their own."""
    last = gathered_together(case)[0]

    def after(stage: Stage, step: int, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        session.after(stage, step, module, optimizer)
        if stage is Stage.BACKWARD:
            for parameter in module.get_submodule(last).parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(case.layout.data_ranks)

    return replace(session, after=after)

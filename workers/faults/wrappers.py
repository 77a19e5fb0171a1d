"""Planted faults of `fully_shard` with its options.

Each is of one option, and no case without that option can show it.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from torch import nn

from difftest.cases.case import Case
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

"""Planted faults of data parallelism: gradients or weights that the ranks do not share as they should.

Where one rank differs from the others, it is rank 1 or a later one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias, cast

import torch
from torch import distributed, nn

from difftest.cases.case import Case
from difftest.judge.stage import Stage
from workers.faults import BACKEND, SHARDING, planted
from workers.training.pieces import rows_by_rank
from workers.training.session import Session
from workers.training.wrapped_names import parameters

Averaged: TypeAlias = torch.futures.Future[torch.Tensor]
"""What a communication hook returns; torch checks the annotations of hooks, so this must be the very type."""

DDP = ("torch_ddp",)
BOTH = ("torch_ddp", "xla_ddp")
"""For what every replica does alike: on XLA their graphs must not differ."""

WRAPPERS = ("torch_ddp", "torch_fsdp")


def _sharded(case: Case) -> bool:
    return len(case.layout.batch_axes) > 0 and case.world_size > 1


def _several_steps(case: Case) -> bool:
    return _sharded(case) and case.training.steps > 1


def _with_hook(session: Session, hook: Callable[[Any, Any], Any]) -> Session:
    """The session whose DDP communicates by `hook`."""

    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        placed.register_comm_hook(None, hook)  # type: ignore[operator]
        return placed

    return replace(session, place=place)


def _on_rank_1(
    session: Session, rank: int, stage: Stage, act: Callable[[nn.Module, torch.optim.Optimizer, int], None]
) -> Session:
    """The session in which `act(module, optimizer, step)` follows a stage on rank 1."""

    def after(at: Stage, step: int, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if at is stage and rank == 1:
            act(module, optimizer, step)

    return replace(session, after=after)


@planted(
    about="one parameter takes no part in the all-reduce", backends=BOTH, blame=SHARDING, reaches=_sharded
)
def parameter_left_out(session: Session, _case: Case, _rank: int) -> Session:
    """DDP ignores the first parameter."""

    def place(module: nn.Module) -> nn.Module:
        first, ddp = next(iter(parameters(module))), nn.parallel.DistributedDataParallel
        ddp._set_params_and_buffers_to_ignore_for_model(module, [first])  # noqa: SLF001
        return session.place(module)

    return replace(session, place=place)


@planted(about="gradients are summed, not averaged", backends=BOTH, blame=SHARDING, reaches=_sharded)
def sum_for_mean(session: Session, _case: Case, _rank: int) -> Session:
    """A communication hook that does not divide."""

    def hook(_state: object, bucket: distributed.GradBucket) -> Averaged:  # type: ignore[name-defined]
        work = distributed.all_reduce(bucket.buffer(), async_op=True)
        return cast("Averaged", work.get_future().then(lambda done: done.value()[0]))

    return _with_hook(session, hook)


@planted(
    about="a bucket carries the step before's gradients",
    backends=DDP,
    blame=BACKEND,  # one rank has buckets too
    reaches=_several_steps,
)
def stale_bucket(session: Session, _case: Case, _rank: int) -> Session:
    """Gives every bucket what it held in the step before."""
    before: dict[int, torch.Tensor] = {}

    def hook(_state: object, bucket: distributed.GradBucket) -> Averaged:  # type: ignore[name-defined]
        def keep(done: Any) -> torch.Tensor:  # noqa: ANN401
            fresh: torch.Tensor = done.value()[0].clone()
            stale = before.get(bucket.index(), fresh)
            before[bucket.index()] = fresh
            return stale

        averaged = bucket.buffer() / distributed.get_world_size()
        return cast("Averaged", distributed.all_reduce(averaged, async_op=True).get_future().then(keep))

    return _with_hook(session, hook)


@planted(about="initial weights are not broadcast", backends=DDP, blame=SHARDING, reaches=_sharded)
def broadcast_skipped(session: Session, _case: Case, rank: int) -> Session:
    """The ranks start from different weights, and the wrapper does not equalise them."""

    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        with torch.no_grad():
            for parameter in placed.parameters():
                parameter.add_(0.0625 * rank)
        return placed

    return replace(session, place=place)


@planted(
    about="one rank loses its optimizer state",
    backends=WRAPPERS,
    blame=SHARDING,
    reaches=lambda case: _several_steps(case) and case.training.optimizer != "sgd",
)
def optimizer_state_lost(session: Session, _case: Case, rank: int) -> Session:
    """After every update."""

    def lose(_module: nn.Module, optimizer: torch.optim.Optimizer, _step: int) -> None:
        optimizer.state.clear()

    return _on_rank_1(session, rank, Stage.UPDATE, lose)


@planted(about="one replica is updated once too often", backends=WRAPPERS, blame=SHARDING, reaches=_sharded)
def updated_twice(session: Session, _case: Case, rank: int) -> Session:
    """In the first step."""

    def update(_module: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        if step == 0:
            optimizer.step()

    return _on_rank_1(session, rank, Stage.BACKWARD, update)


@planted(about="one rank's gradient holds a NaN", backends=DDP, blame=SHARDING, reaches=_sharded)
def nan_on_one_rank(session: Session, _case: Case, rank: int) -> Session:
    """In the first element of the first parameter's gradient."""

    def poison(module: nn.Module, _optimizer: torch.optim.Optimizer, _step: int) -> None:
        gradient = next(iter(parameters(module).values())).grad
        if gradient is not None:
            gradient.view(-1)[0] = float("nan")

    return _on_rank_1(session, rank, Stage.BACKWARD, poison)


@planted(
    about="the loss is averaged over the local rows only",
    backends=WRAPPERS,
    blame=SHARDING,
    reaches=lambda case: _sharded(case) and len(set(rows_by_rank(case))) > 1,
)
def mean_of_local_batch(session: Session, case: Case, rank: int) -> Session:
    """Divides by the rows of this rank, as if every rank had as many."""
    fair = case.part_rows / session.scale
    return replace(session, scale=session.scale * fair / max(rows_by_rank(case)[rank], 1))


@planted(
    about="only the last accumulation part counts",
    backends=BOTH,
    blame=BACKEND,
    reaches=lambda case: _sharded(case) and case.training.accumulation > 1,
)
def first_parts_dropped(session: Session, _case: Case, _rank: int) -> Session:
    """Gradients of earlier accumulation parts are dropped before the last one."""

    @contextmanager
    def quiet(module: nn.Module, last: bool) -> Iterator[None]:  # noqa: FBT001  the session's signature
        if last:
            module.zero_grad()
        with session.quiet(module, last):
            yield

    return replace(session, quiet=quiet)

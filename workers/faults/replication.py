"""Defects of data parallelism: gradients or weights that the ranks do not share as they should. Rank 1 or a later one is the odd one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias, cast

import torch
from torch import distributed, nn

from difftest.cases.case import Case
from difftest.cases.layout import local_slices
from difftest.judge.outcome import Stage
from workers.faults import BACKEND, SHARDING, Fault
from workers.training.session import Session
from workers.training.train import parameters

Averaged: TypeAlias = torch.futures.Future[torch.Tensor]
"""What a communication hook returns; torch checks the annotations of hooks, so this must be the very type."""

DDP = ("torch_ddp",)
BOTH = ("torch_ddp", "xla_ddp")
"""What every replica does alike: on XLA their graphs must not differ."""

WRAPPERS = ("torch_ddp", "torch_fsdp")


def _sharded(case: Case) -> bool:
    return len(case.layout.batch_axes) > 0 and case.world_size > 1


def _several_steps(case: Case) -> bool:
    return _sharded(case) and case.training.steps > 1


def _stateful(case: Case) -> bool:
    return _several_steps(case) and case.training.optimizer != "sgd"


def _uneven(case: Case) -> bool:
    shape = (case.data.batch // case.training.accumulation,)
    batch, mesh = tuple(case.layout.batch), case.layout.mesh
    cuts = {
        s[0].stop - s[0].start
        for s in (local_slices(shape, batch, mesh, rank) for rank in range(case.world_size))
    }
    return _sharded(case) and len(cuts) > 1


def _hooked(hook: Callable[[Any, Any], Any]) -> Callable[[Session, Case, int], Session]:
    """Plants a DDP communication hook."""

    def plant(session: Session, _case: Case, _rank: int) -> Session:
        def place(module: nn.Module) -> nn.Module:
            placed = session.place(module)
            placed.register_comm_hook(None, hook)  # type: ignore[operator]
            return placed

        return replace(session, place=place)

    return plant


def _sum(_state: object, bucket: distributed.GradBucket) -> Averaged:  # type: ignore[name-defined]
    work = distributed.all_reduce(bucket.buffer(), async_op=True)
    return cast("Averaged", work.get_future().then(lambda done: done.value()[0]))


def _stale(session: Session, case: Case, rank: int) -> Session:
    """Gives every bucket what it had in the step before."""
    before: dict[int, torch.Tensor] = {}

    def hook(_state: object, bucket: distributed.GradBucket) -> Averaged:  # type: ignore[name-defined]
        def keep(done: Any) -> torch.Tensor:  # noqa: ANN401
            fresh: torch.Tensor = done.value()[0].clone()
            stale = before.get(bucket.index(), fresh)
            before[bucket.index()] = fresh
            return stale

        averaged = bucket.buffer() / distributed.get_world_size()
        return cast("Averaged", distributed.all_reduce(averaged, async_op=True).get_future().then(keep))

    return _hooked(hook)(session, case, rank)


def _left_out(session: Session, _case: Case, _rank: int) -> Session:
    def place(module: nn.Module) -> nn.Module:
        name = next(iter(parameters(module)))
        nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, [name])  # noqa: SLF001
        return session.place(module)

    return replace(session, place=place)


def _no_broadcast(session: Session, _case: Case, rank: int) -> Session:
    """The ranks start from other weights, and the wrapper does not equalise them."""

    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        with torch.no_grad():
            for parameter in placed.parameters():
                parameter.add_(0.0625 * rank)
        return placed

    return replace(session, place=place)


def _after(
    stage: Stage, act: Callable[[nn.Module, torch.optim.Optimizer, int], None]
) -> Callable[[Session, Case, int], Session]:
    """Plants an act on rank 1 after a stage."""

    def plant(session: Session, _case: Case, rank: int) -> Session:
        def after(at: Stage, step: int, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
            if at is stage and rank == 1:
                act(module, optimizer, step)

        return replace(session, after=after)

    return plant


def _lose_state(_module: nn.Module, optimizer: torch.optim.Optimizer, _step: int) -> None:
    optimizer.state.clear()


def _step_twice(_module: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    if step == 0:
        optimizer.step()


def _nan(module: nn.Module, _optimizer: torch.optim.Optimizer, _step: int) -> None:
    gradient = next(iter(parameters(module).values())).grad
    if gradient is not None:
        gradient.view(-1)[0] = float("nan")


def _local_mean(session: Session, case: Case, rank: int) -> Session:
    """Divides by the rows of this rank, as if every rank had as many."""
    rows = case.data.batch // case.training.accumulation
    mine = local_slices((rows,), case.layout.batch, case.layout.mesh, rank)[0]
    fair = rows / session.scale
    return replace(session, scale=session.scale * fair / max(mine.stop - mine.start, 1))


def _first_part_lost(session: Session, _case: Case, _rank: int) -> Session:
    """What earlier accumulation parts left is forgotten before the last one."""

    @contextmanager
    def quiet(module: nn.Module, last: bool) -> Iterator[None]:  # noqa: FBT001  the session's signature
        if last:
            module.zero_grad()
        with session.quiet(module, last):
            yield

    return replace(session, quiet=quiet)


FAULTS = (
    Fault(
        name="parameter_left_out",
        about="one parameter takes no part in the all-reduce",
        backends=BOTH,
        blame=SHARDING,
        reaches=_sharded,
        plant=_left_out,
    ),
    Fault(
        name="sum_for_mean",
        about="gradients are summed, not averaged",
        backends=BOTH,
        blame=SHARDING,
        reaches=_sharded,
        plant=_hooked(_sum),
    ),
    Fault(
        name="stale_bucket",
        about="a bucket carries the step before's gradients",
        backends=DDP,
        blame=BACKEND,  # one rank has buckets too
        reaches=_several_steps,
        plant=_stale,
    ),
    Fault(
        name="broadcast_skipped",
        about="initial weights are not broadcast",
        backends=DDP,
        blame=SHARDING,
        reaches=_sharded,
        plant=_no_broadcast,
    ),
    Fault(
        name="optimizer_state_lost",
        about="one rank loses its optimizer state",
        backends=WRAPPERS,
        blame=SHARDING,
        reaches=_stateful,
        plant=_after(Stage.UPDATE, _lose_state),
    ),
    Fault(
        name="updated_twice",
        about="one replica is updated once too often",
        backends=WRAPPERS,
        blame=SHARDING,
        reaches=_sharded,
        plant=_after(Stage.BACKWARD, _step_twice),
    ),
    Fault(
        name="nan_on_one_rank",
        about="one rank's gradient holds a NaN",
        backends=DDP,
        blame=SHARDING,
        reaches=_sharded,
        plant=_after(Stage.BACKWARD, _nan),
    ),
    Fault(
        name="mean_of_local_batch",
        about="the loss is averaged over the local rows only",
        backends=WRAPPERS,
        blame=SHARDING,
        reaches=_uneven,
        plant=_local_mean,
    ),
    Fault(
        name="first_parts_dropped",
        about="only the last accumulation part counts",
        backends=BOTH,
        blame=BACKEND,
        reaches=lambda c: _sharded(c) and c.training.accumulation > 1,
        plant=_first_part_lost,
    ),
)

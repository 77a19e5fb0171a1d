"""Planted faults of replicas: hooks of DDP, local updates, `Join`, and buckets of a sharded optimizer.

Each changes a function that only one feature calls, or one option of it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.algorithms import join
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook

from difftest.cases.case import Case
from difftest.cases.feature import of
from difftest.cases.features import communication_hook, local_steps, sharded_optimizer, uneven_inputs
from workers.faults import BACKEND, SHARDING, of_feature, planted
from workers.faults.features import replacing
from workers.training.features import converted
from workers.training.session import Session

DDP, PATHS = ("torch_ddp",), ("replicated",)

PROPORTIONAL = ("sgd", "momentum")
"""The optimizers whose updates are as large as the gradients."""


def _hooked(*kinds: str) -> Callable[[Case], bool]:
    def reaches(case: Case) -> bool:
        options = of(case, communication_hook.Options)
        return options is not None and options.kind in kinds and case.world_size > 1

    return reaches


@planted(
    paths=PATHS,
    about="a communication hook leaves out the last number of a bucket",
    backends=DDP,
    blame=BACKEND,
    reaches=_hooked("allreduce"),
)
def last_of_bucket_lost(session: Session, _case: Case, _rank: int) -> Session:
    """It is zero."""
    right = default_hooks.allreduce_hook

    def spoiled(group: Any, bucket: Any) -> Any:  # noqa: ANN401  torch's
        bucket.buffer()[-1:].zero_()
        return right(group, bucket)

    return replacing(session, default_hooks, "allreduce_hook", spoiled)


@planted(
    paths=PATHS,
    about="a compressing hook divides gradients twice",
    backends=DDP,
    blame=SHARDING,
    reaches=_hooked("fp16_compress", "bf16_compress"),
)
def compressed_twice_divided(session: Session, _case: Case, _rank: int) -> Session:
    """By the number of ranks, before it casts them."""
    right = default_hooks._compress_hook  # noqa: SLF001  what both call

    def spoiled(dtype: torch.dtype, group: Any, bucket: Any) -> Any:  # noqa: ANN401
        bucket.buffer().div_(distributed.get_world_size())
        return right(dtype, group, bucket)

    return replacing(session, default_hooks, "_compress_hook", spoiled)


@planted(
    paths=PATHS,
    about="a compressing wrapper around a hook gives what a rank sent, not the sum",
    backends=DDP,
    blame=SHARDING,
    reaches=_hooked("fp16_wrapper", "bf16_wrapper"),
)
def wrapper_keeps_own(session: Session, _case: Case, _rank: int) -> Session:
    """The hook inside never adds up."""

    def alone(_group: Any, bucket: Any) -> Any:  # noqa: ANN401  a future
        future = torch.futures.Future[Tensor]()
        future.set_result(bucket.buffer())
        return future

    return replacing(session, default_hooks, "allreduce_hook", alone)


@planted(
    paths=PATHS,
    about="PowerSGD keeps one direction less than its rank",
    backends=DDP,
    blame=BACKEND,
    reaches=_hooked("power", "power_warm"),
)
def direction_lost(session: Session, _case: Case, _rank: int) -> Session:
    """The first direction of every basis is zero."""
    right: Any = powerSGD_hook._orthogonalize  # noqa: SLF001  what both hooks call

    def spoiled(matrices: Tensor, epsilon: float = 0) -> None:
        right(matrices, epsilon)
        matrices[..., :1].zero_()

    return replacing(session, powerSGD_hook, "_orthogonalize", spoiled)


@planted(
    paths=PATHS,
    about="PowerSGD that begins late does not average until then",
    backends=DDP,
    blame=SHARDING,
    reaches=_hooked("power_late", "batched_power_late"),
)
def not_averaged_before_power(session: Session, _case: Case, _rank: int) -> Session:
    """It adds up, and does not divide."""

    def spoiled(_group: Any, tensor: Tensor) -> Any:  # noqa: ANN401  a future
        future = distributed.all_reduce(tensor, async_op=True).get_future()
        return future.then(lambda done: done.value()[0])

    return replacing(session, default_hooks, "_allreduce_fut", spoiled)


def _local(case: Case) -> local_steps.Options | None:
    return of(case, local_steps.Options) if case.world_size > 1 else None


@planted(
    paths=PATHS,
    about="parameters are averaged one update too early",
    backends=DDP,
    blame=SHARDING,
    reaches=lambda case: (options := _local(case)) is not None and options.step < case.training.steps,
)
def averaged_early(session: Session, _case: Case, _rank: int) -> Session:
    """The last update before it stays a rank's own."""
    from torch.distributed.optim import PostLocalSGDOptimizer

    right: Any = PostLocalSGDOptimizer.step

    def spoiled(optimizer: PostLocalSGDOptimizer) -> None:
        optimizer.averager.step += 1
        right(optimizer)
        optimizer.averager.step -= 1

    return replacing(session, PostLocalSGDOptimizer, "step", spoiled)


@planted(
    paths=PATHS,
    about="neighbours that should average their gradients do not",
    backends=DDP,
    blame=SHARDING,
    reaches=lambda case: (options := _local(case)) is not None and options.together > 1,
)
def neighbours_apart(session: Session, _case: Case, _rank: int) -> Session:
    """They keep their own."""
    state: Any = post_localSGD_hook.PostLocalSGDState

    def apart(*arguments: Any, **_options: Any) -> Any:  # noqa: ANN401  those of the class
        return state(*arguments, post_local_gradient_allreduce=False)

    return replacing(session, post_localSGD_hook, "PostLocalSGDState", apart)


@planted(
    paths=PATHS,
    about="ranks without a batch do not get the last model of the others",
    backends=DDP,
    blame=SHARDING,
    reaches=lambda case: of(case, uneven_inputs.Options) is not None and case.world_size > 1,
)
def final_model_not_sent(session: Session, _case: Case, _rank: int) -> Session:
    """The model of the last rank that had a batch is not sent to them."""
    return replacing(session, nn.parallel.DistributedDataParallel, "_sync_final_model", lambda *_: None)


@planted(
    paths=PATHS,
    about="gradients are divided by the wrong number of ranks where some have no batch",
    backends=DDP,
    blame=SHARDING,
    reaches=lambda case: (options := of(case, uneven_inputs.Options)) is not None and options.shrinking,
)
def divided_by_all(session: Session, _case: Case, _rank: int) -> Session:
    """By that of all ranks."""

    class WrongJoin(join.Join):
        def __init__(self, joinables: list[Any], **_options: Any) -> None:  # noqa: ANN401  those of the class
            super().__init__(joinables, divide_by_initial_world_size=True)

    return replacing(session, join, "Join", WrongJoin)


@planted(
    paths=PATHS,
    about="views of a bucket are copies",
    backends=DDP,
    blame=SHARDING,
    reaches=lambda case: (options := of(case, sharded_optimizer.Options)) is not None and options.bucket_view,
)
def bucket_views_copied(session: Session, _case: Case, _rank: int) -> Session:
    """What the ranks send of a bucket is what it was when it was made."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    of_zero: Any = ZeroRedundancyOptimizer
    build = of_zero._build_param_buckets  # noqa: SLF001  what makes them

    def spoiled(optimizer: Any) -> None:  # noqa: ANN401  torch declares no such methods
        build(optimizer)
        for parameter in optimizer._all_params:  # noqa: SLF001
            parameter.data = parameter.data.clone()

    return replacing(session, of_zero, "_build_param_buckets", spoiled)


@of_feature(
    "sharded_optimizer",
    about="shards of gradients are their sum over replicas, not the mean",
    reaches=lambda case: (
        case.world_size > 1 and case.training.optimizer in PROPORTIONAL and case.training.clip_norm is None
    ),
    backends=("xla_replica",),
    blame=SHARDING,
    paths=PATHS,
)
def shards_not_divided(session: Session, _case: Case, _rank: int) -> Session:
    """What torch_xla's optimizer scatters is not divided by the number of replicas."""
    from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

    right = ZeroRedundancyOptimizer._get_sharding_scheme  # noqa: SLF001  what says how gradients are scaled

    def spoiled(optimizer: Any, arguments: Any) -> Any:  # noqa: ANN401  torch_xla's
        return [{**one, "scale_factor": float(one["group_size"])} for one in right(optimizer, arguments)]

    return replacing(session, ZeroRedundancyOptimizer, "_get_sharding_scheme", spoiled)


@of_feature("converted", about="a module is converted by a dtype that has fewer numbers", paths=PATHS)
def converted_through_bfloat16(session: Session, _case: Case, _rank: int) -> Session:
    """So that its parameters are rounded."""
    right = converted.there_and_back
    return replacing(session, converted, "there_and_back", lambda module: right(module, torch.bfloat16))

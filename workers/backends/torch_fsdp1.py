"""FSDP1, `FullyShardedDataParallel`: every rank holds an interval of the numbers of each wrapped module.

Over one mesh axis it shards (`FULL_SHARD`), over two it replicates over the first (`HYBRID_SHARD`). It is
superseded by `fully_shard`, and still used.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from difftest.cases.case import Case
from difftest.cases.feature import has, of
from difftest.cases.features import mixed_precision, optimizer
from difftest.cases.gathered import gathered_alone
from workers import sides
from workers.backends import torch_fsdp
from workers.torch import devices, process_groups
from workers.training.refusals import for_modules_only

if TYPE_CHECKING:
    from torch import nn

    from workers.torch.flat import FlatParameters
    from workers.training.session import Session

TITLE = "FSDP1"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = sides.TORCH
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment

WHOLE = (
    "averaged_weights",
    "clip_by_infinity_norm",
    "frozen",
    "frozen_layers",
    "kept_state_dict",
    "muon",
    "parameter_groups",
    "sharded_optimizer",
    "skipped_block",
    "unfreezing",
)
"""Features that need parameters in their own shapes, all of their numbers, or gradients of some alone."""

UNWRAPPED = {
    "ties": "FullyShardedDataParallel does not support shared parameters in submodules of their own",
    "groups": "FullyShardedDataParallel wraps no list of modules",
}
"""Why it does not wrap so."""


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why `fully_shard` could not shard the case, or what flat parameters take from a feature; or None."""
    return _by_shape(case) or _by_option(case) or torch_fsdp.unsupported(case)


def _by_option(case: Case) -> str | None:
    """What `FullyShardedDataParallel` is not told, or None."""
    if case.sharded_by.gradient_divide_factor is not None or case.sharded_by.summed:
        return "FullyShardedDataParallel divides gradients by the number of ranks alone"
    if case.sharded_by.ignored is not None:
        return "FullyShardedDataParallel is not told to ignore a parameter here"
    if reason := UNWRAPPED.get(case.sharded_by.wrapped):
        return reason
    mixed = of(case, mixed_precision.Options)
    if mixed and mixed.output == "everywhere":
        return "FullyShardedDataParallel has no dtype of outputs"
    if case.sharded_by.offload:
        return "FullyShardedDataParallel offloads from an accelerator alone"
    return None


def _by_shape(case: Case) -> str | None:
    """What needs parameters as they are in the model, or None."""
    another, own = of(case, optimizer.Options), case.model.own
    if has(case, *WHOLE) or (another and another.kind == optimizer.FACTORED):
        return "FullyShardedDataParallel joins parameters; a feature of the case needs them apart"
    if own and case.training.optimizer == "own" and own.optimizer_by_shape:
        return "FullyShardedDataParallel gives parameters one dim; your optimizer treats them by their shapes"
    return None


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins the process group and wraps the residual blocks, and then the rest."""
    from workers.torch.flat import FlatParameters

    with process_groups.joined(case, rank, rendezvous, kind=kind) as member:
        flat = FlatParameters(member)
        joined = process_groups.local_session(member, partial(_place, member, flat), partial(_quiet, case))
        yield replace(torch_fsdp.with_options(case, joined), shared=flat.shared, clip=flat.clip)


def _place(member: process_groups.Member, flat: "FlatParameters", module: "nn.Module") -> "nn.Module":
    from torch.distributed.fsdp import FullyShardedDataParallel

    from workers.training.features.autocast import wide_again

    case, options = member.case, _options(member)
    for path in gathered_alone(case):
        parent, _, name = path.rpartition(".")
        wrapped = FullyShardedDataParallel(module.get_submodule(path), **options)
        setattr(module.get_submodule(parent), name, wrapped)
    flat.module = FullyShardedDataParallel(module, **options)
    if of(case, mixed_precision.Options):
        flat.module.register_forward_hook(lambda _module, _inputs, outputs: wide_again(outputs))
    return flat.module


def _options(member: process_groups.Member) -> dict[str, Any]:
    import torch
    from torch.distributed.fsdp import MixedPrecision, ShardingStrategy

    case, mesh = member.case, member.mesh
    keeps = case.sharded_by.reshard_after_forward is False
    full, hybrid = (
        (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)  # noqa: SLF001  its only name
        if keeps
        else (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
    )
    mixed = of(case, mixed_precision.Options)
    narrow = mixed and MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=getattr(torch, mixed.reduce))
    return {
        "device_mesh": mesh,
        "sharding_strategy": hybrid if mesh.ndim > 1 else full,
        "use_orig_params": True,
        "device_id": member.device,  # named, or it looks for an accelerator
        "mixed_precision": narrow,
    }


def _quiet(
    case: Case,
    module: "nn.Module",
    last: bool,  # noqa: FBT001  the session's signature
) -> AbstractContextManager[None]:
    """Reduces gradients in the last accumulation part only, unless the case's `sharding` wants every one."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    assert isinstance(module, FullyShardedDataParallel)  # noqa: S101  placed above
    return nullcontext() if last or case.sharded_by.synced != "last" else module.no_sync()

"""Replicas on XLA without a wrapper.

Rank 0's parameters are broadcast once, and then gradients are reduced as `xm.optimizer_step` reduces them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.feature import has, of
from difftest.cases.features import sharded_optimizer
from difftest.judge.stage import Stage
from workers import sides
from workers.backends import torch_ddp
from workers.xla import devices, pinning, replicas

if TYPE_CHECKING:
    import torch
    from torch import nn

    from workers.training.session import Session

TITLE = "XLA replicas"
SIDE = "xla"
FRAMEWORK = "torch_xla"
PROFILE = sides.TORCH_XLA
PRELOAD = devices.PRELOAD
processes = replicas.processes
environment = replicas.environment

SHARDED = "sharded_optimizer"


def unsupported(case: Case) -> str | None:
    """Why replicas cannot have the layout, or None. Of a program there is one: all would do the same."""
    if case.model.is_program and case.world_size > 1:
        return "every replica would run the whole program; it runs on a mesh of one rank"
    if has(case, "communication_hook"):
        return "communication hooks are of DistributedDataParallel, which xla_ddp has"
    return _not_learned(case) or _not_sharded(case) or replicas.unsupported(case)


def _not_learned(case: Case) -> str | None:
    """Why gradients cannot go through the case's collectives, or None."""
    learned = pinning.learned(case)
    if any(layer.operation != "all_reduce" for layer in learned):
        return "of torch_xla.core.functions, all_reduce alone has the same graph on every replica"
    if learned and case.dtype not in {"float32", "float64"}:
        return "torch_xla.core.functions pins layouts, as XLA's all-reduce of half types cannot on the CPU"
    return None


def _not_sharded(case: Case) -> str | None:
    """Why torch_xla's `ZeroRedundancyOptimizer` cannot be the optimizer that `case` has, or None."""
    options = of(case, sharded_optimizer.Options)
    if options is None:
        return None
    if has(case, "clip_by_infinity_norm", "clip_by_value"):
        return "torch_xla's ZeroRedundancyOptimizer clips what it has reduced, by the norm alone"
    if pinning.pinned(case) and not options.gathered_bucket and processes(case) == 1:
        return "to pin layouts, xm.all_gather has a graph of its own on every replica"
    return None


@contextmanager
def session(case: Case, rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Reduces gradients once a step, after all accumulation parts."""
    from workers.xla import zero

    with replicas.session(case, rank, _place, after=partial(_after, pinning.pinned(case))) as joined:
        yield replace(joined, does={SHARDED: partial(zero.hooks, case)})


def _place(replica: replicas.Replica, module: "nn.Module") -> "nn.Module":
    """Broadcasts as `xm.broadcast_master_param` does, but does not pin layouts unless the case says so.

    XLA has no pinned all-reduce of bfloat16 on the CPU.
    """
    import torch_xla
    from torch_xla.core import xla_model

    module = replica.move(torch_ddp.start(replica.case, replica.rank, module))
    if has(replica.case, SHARDED):  # it cuts its shards of the weights on the host
        replica.reader.further_tensors = replica.case.world_size * len(list(module.parameters()))
    forms = replica.case.forms
    if not forms.no_broadcast:
        tensors = [*module.parameters(), *module.buffers()]
        xla_model.collective_broadcast(tensors, pin_layout=pinning.pinned(replica.case))
    torch_xla.sync()
    return module


def _after(
    pinned: bool,  # noqa: FBT001  bound before the session's own arguments
    stage: Stage,
    _step: int,
    _module: "nn.Module",
    optimizer: "torch.optim.Optimizer",
) -> None:
    from torch_xla.core import xla_model

    if stage is Stage.BACKWARD:
        xla_model.reduce_gradients(optimizer, pin_layout=pinned)

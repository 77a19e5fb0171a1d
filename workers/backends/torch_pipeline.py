"""`torch.distributed.pipelining`: stages of the model on the ranks of `pp`, and microbatches through them.

Beside `pp` the mesh may have data axes, over which each stage is wrapped by `DistributedDataParallel` or
`fully_shard`, and `tp`, over which it is parallelized; as everywhere, tensor parallelism comes first.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layout import Replicate
from difftest.cases.pipelining import AXIS
from workers import sides
from workers.backends import torch_ddp, torch_fsdp
from workers.torch import devices, process_groups
from workers.training import tp_plan

if TYPE_CHECKING:
    from torch import Tensor, nn

    from workers.torch.pipelines import StageModule
    from workers.training.session import Loss, Session

TITLE = "torch.distributed.pipelining"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = sides.TORCH
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment


def unsupported(case: Case) -> str | None:
    """Why the case has no stages that a pipeline can have, or their parameters other placements; or None."""
    if not case.staged:
        return "needs the stages of a pipeline"
    if case.world_size == 1:
        return None
    if case.forms.optimizer_before:
        return "stages are cut and wrapped before their optimizer is made"
    return _no_stages(case) or _no_placements(case)


def _no_stages(case: Case) -> str | None:
    layers = [layer for _, layer in walk(case.model.layers)]
    if any(layer.mixes_rows for layer in layers):
        return "microbatches are computed apart; in this model rows influence each other"
    if any(layer.borrows() for layer in layers):
        return "stages have parameters of their own; two layers share one"
    if any(layer.reads_mask or layer.reads_segments for layer in layers):
        return "a stage is given what the one before gives; a layer reads more of the batch"
    assert case.staged  # noqa: S101  looked up above
    if case.staged.rows_second and not (case.model.sequence and case.staged.can_turn):
        return (
            "rows come second where there is a sequence, one tensor is handed on and the schedule is told so"
        )
    if case.data.learnable or case.training.checkpointing or case.model.statistics():
        return "stages are not trained to the end, computed again, nor have they buffers here"
    ranks = case.layout.mesh.size(AXIS)
    trained = {int(name.partition(".")[0]) for name in case.model.parameters()}
    having = case.staged.ranks_with(trained, len(case.model.layers), ranks)
    return "an optimizer needs parameters; a rank has none" if len(having) < ranks else None


def _no_placements(case: Case) -> str | None:
    """Why the axes beside the pipeline's cannot give parameters their placements, or None."""
    axes = _data_axes(case)
    if not process_groups.cuts_rows_only(case):
        return "stages take whole rows; the layout cuts the batch along the sequence"
    if tp_plan.AXIS in case.layout.mesh.names and (reason := tp_plan.refusal(case)):
        return reason
    if axes and not _replicates(case):
        return torch_fsdp.refusal(case, axes)
    if axes and (len(axes) > 1 or tp_plan.AXIS in case.layout.mesh.names):
        return (
            "DistributedDataParallel replicates plain tensors over one axis; the layout has another beside it"
        )
    return None


def _data_axes(case: Case) -> tuple[str, ...]:
    return tuple(name for name in case.layout.mesh.names if name not in {AXIS, tp_plan.AXIS})


def _replicates(case: Case) -> bool:
    """Whether every parameter is whole on every data axis."""
    return all(
        isinstance(torch_fsdp.by_axis(case, name)[axis], Replicate)
        for name in case.layout.parameters
        for axis in _data_axes(case)
    )


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins over the whole mesh, and makes this rank's stages; on one rank the model is as it is."""
    with process_groups.joined(case, rank, rendezvous, kind=kind) as member:
        if case.world_size == 1:
            yield process_groups.local_session(member, lambda module: module.to(member.device))
            return
        from workers.torch.pipelines import RankPipeline

        assert case.staged  # noqa: S101  `unsupported` requires it
        ranks = RankPipeline(
            member=member,
            pipeline=case.staged,
            wrap=partial(_wrapped, member),
            scale=float(case.layout.data_ranks),
        )
        joined = process_groups.local_session(member, ranks.place)

        def staged(
            _module: "nn.Module", parts: "Sequence[Sequence[Tensor]]", loss: "Loss"
        ) -> "tuple[list[Tensor], Tensor]":
            fed = [[joined.feed(tensor) for tensor in part] for part in parts]
            return ranks.run(fed, loss, joined.total)

        yield replace(joined, staged=staged, shared=ranks.shared, clip=ranks.clip)


def _wrapped(member: process_groups.Member, stage: "StageModule") -> "nn.Module":
    """The stage with its parameters where the layout has them."""
    case, module = member.case, stage
    if tp_plan.AXIS in case.layout.mesh.names:
        _parallelize(member, stage)
    axes = _data_axes(case)
    if not axes:
        return module
    if not _replicates(case):
        return torch_fsdp.shard(case, module, member.mesh[axes])
    return _replicated(member, stage)


def _parallelize(member: process_groups.Member, stage: "StageModule") -> None:
    from torch.distributed.tensor.parallel import parallelize_module

    there = {name for name, _ in stage.named_children()}
    styles = tp_plan.styles(member.case, stage)
    plan = {path: style for path, style in styles.items() if path.partition(".")[0] in there}
    parallelize_module(stage, member.mesh[tp_plan.AXIS], plan)


def _replicated(member: process_groups.Member, stage: "StageModule") -> "nn.Module":
    """DDP over the data axis; it refuses a module of which nothing is trained."""
    if not any(parameter.requires_grad for parameter in stage.parameters()):
        return stage
    (axis,) = _data_axes(member.case)
    return torch_ddp.wrap(member.case, stage, group=member.mesh.get_group(axis))

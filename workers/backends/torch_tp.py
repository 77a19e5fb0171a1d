"""`parallelize_module` over the axis `tp`, and `fully_shard` over the other axes.

The plan of `parallelize_module` follows from the parameters' placements. The order is torchtitan's: tensor
parallelism first, then data parallelism over what each rank holds. Replication beside tensor parallelism is
hybrid sharding over one rank, because `DistributedDataParallel` replaces DTensors by their local tensors
without the optimizer's knowledge.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layout import Mesh, Replicate
from difftest.cases.regions import convolutions, gathers
from workers import sides
from workers.backends import torch_fsdp
from workers.torch import devices, process_groups
from workers.training import tp_plan
from workers.training.pieces import full
from workers.training.refusals import for_modules_only, mixed_rows

if TYPE_CHECKING:
    from torch import nn

    from workers.training.session import Session

TITLE = "parallelize_module"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = sides.TORCH
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment

SHARDS, REPLICATES = "dp_shard", "dp_replicate"


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why no plan of `parallelize_module` with `fully_shard` expresses the layout, or None."""
    if case.forms.optimizer_before:
        return "parallelize_module replaces the parameters: its optimizer is made after it"
    if case.sharded_by.ignored is not None:
        return "the gradient of a parameter that fully_shard ignores is averaged over all ranks, tp's too"
    if not process_groups.cuts_rows_only(case):
        return "parallelize_module takes whole rows; the layout cuts the batch along the sequence"
    return tp_plan.refusal(case) or mixed_rows(case) or _no_clipping(case) or _no_data_parallelism(case)


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins; where the layout only replicates, its mesh has one more axis, of one rank, to shard over."""
    with process_groups.joined(case, rank, rendezvous, _mesh(case), kind) as member:
        sharded = bool(_data_axes(case))
        joined = process_groups.local_session(
            member,
            partial(_place, member),
            partial(torch_fsdp.quiet, case) if sharded else lambda *_: nullcontext(),
        )
        joined = torch_fsdp.with_options(case, joined) if sharded else joined
        yield _with_classes_apart(joined) if case.cut_by.loss != "whole" and case.world_size > 1 else joined


def _with_classes_apart(session: "Session") -> "Session":
    """The session whose loss is computed of the pieces of the output that the ranks over tp have."""
    from torch.distributed.tensor.parallel import loss_parallel

    from workers.torch import parallel_loss

    @contextmanager
    def quiet(module: "nn.Module", last: bool) -> Iterator[None]:  # noqa: FBT001  the session's signature
        with session.quiet(module, last), loss_parallel():
            yield

    return replace(
        session,
        loss=parallel_loss.loss_of,
        whole=full,
        total=lambda loss: session.total(full(loss)),
        quiet=quiet,
    )


def _no_clipping(case: Case) -> str | None:
    """Why a convolution and clipping exclude each other, or None.

    DTensor has no rule for a convolution along a sequence, so `parallelize_module` must leave its parameters
    plain.
    """
    if case.training.clip_norm is not None and convolutions(case):
        return "clip_grad_norm_ takes no mixture of DTensors and plain parameters, which a convolution has"
    return None


def _no_data_parallelism(case: Case) -> str | None:
    axes = _data_axes(case)
    if not axes or _only_replicates(case):
        return None
    return torch_fsdp.refusal(case, axes)


def _data_axes(case: Case) -> tuple[str, ...]:
    """The axes beside tp. A mesh of one axis has none, also that of a case on one device, which is dp."""
    names = case.layout.mesh.names
    return tuple(name for name in names if name != tp_plan.AXIS and len(names) > 1)


def _only_replicates(case: Case) -> bool:
    """Whether there is one data axis and every parameter is replicated over it."""
    return len(_data_axes(case)) == 1 and all(
        isinstance(p[0], Replicate) for p in case.layout.parameters.values()
    )


def _mesh(case: Case) -> Mesh:
    mesh = case.layout.mesh
    if not _only_replicates(case):
        return mesh
    # The data axis keeps its name, by which the ranks that share the batch are found
    data, tp = mesh.axes
    return Mesh((data, (REPLICATES if data[0] == SHARDS else SHARDS, 1), tp))


def _place(member: process_groups.Member, module: "nn.Module") -> "nn.Module":
    from torch.distributed.tensor import Replicate as Whole
    from torch.distributed.tensor import Shard as Cut
    from torch.distributed.tensor.parallel import PrepareModuleOutput, parallelize_module

    from workers.training.build import tie_again

    case = member.case
    axis = (member.mesh.mesh_dim_names or ())[-1]
    left_out = convolutions(case)
    module = module.to(member.device)
    styles = {path: style for path, style in tp_plan.styles(case, module).items() if path not in left_out}
    module = parallelize_module(module, member.mesh[axis], styles)
    if gathers(case):
        gathering = PrepareModuleOutput(output_layouts=Cut(1), desired_output_layouts=Whole())
        module = parallelize_module(module, member.mesh[axis], gathering)
    tie_again(module, case)
    axes = tuple(name for name in member.mesh.mesh_dim_names or () if name != axis)
    if axes and case.sharded_by.second_mesh:
        _second_mesh(member, axis)
    return torch_fsdp.shard(case, module, member.mesh[axes]) if axes else module


def _second_mesh(member: process_groups.Member, axis: str) -> None:
    """Takes the `axis`, which the first mesh has too, of another mesh, as programs do for their experts."""
    from torch.distributed.device_mesh import init_device_mesh

    names, tp = ("ep", axis), member.mesh.size(-1)
    transport = member.devices.transport(member.case, member.device)
    groups = member.devices.groups(member.device, transport, names)
    shape = (member.case.world_size // tp, tp)
    init_device_mesh(member.device.type, shape, mesh_dim_names=names, **groups)[axis]

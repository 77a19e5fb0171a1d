"""FSDP2, `fully_shard`: every parameter is sharded over one mesh axis.

Residual blocks are gathered one at a time.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, cast

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layout import Placement, Replicate, Shard, ways
from workers import sides
from workers.torch import devices, process_groups
from workers.training.refusals import for_modules_only, mixed_rows

if TYPE_CHECKING:
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import Shard as TorchShard

    from workers.training.session import Session

TITLE = "FSDP2"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = sides.TORCH
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why some parameter is not sharded over the last mesh axis alone, or the batch not by rows; or None."""
    if case.forms.optimizer_before:
        return "fully_shard replaces the parameters, and its documentation has the optimizer made after it"
    if not process_groups.cuts_rows_only(case):
        return "fully_shard takes whole rows; the layout cuts the batch along the sequence"
    if reason := mixed_rows(case):
        return reason
    axes = case.layout.mesh.names
    if len(axes) > 2:  # noqa: PLR2004  one to replicate over, one to shard over
        return "fully_shard shards over one axis and replicates over one; the mesh has more"
    return refusal(case, axes) if case.world_size > 1 else None


def refusal(case: Case, axes: tuple[str, ...]) -> str | None:
    """Why `fully_shard` cannot give the parameters their placements on `axes`, or None.

    The last axis must shard, the others must replicate. On an axis of one rank the two are equal.
    """
    for name, shape in case.model.parameters().items():
        placements = by_axis(case, name)
        *before, last = (placements[axis] for axis in axes)
        if isinstance(last, Replicate) and dict(case.layout.mesh.axes)[axes[-1]] > 1:
            return "fully_shard shards every parameter over its axis; the layout replicates one"
        if any(isinstance(p, Shard) for p in before):
            return "fully_shard shards over one axis; the layout shards a parameter over two"
        if isinstance(last, Shard) and last.dim and _uneven(case, placements, shape, last.dim):
            return "fully_shard cuts other dims than the first only evenly"
    return None


def by_axis(case: Case, name: str) -> dict[str, Placement]:
    """A parameter's placement on every mesh axis."""
    return dict(zip(case.layout.mesh.names, case.layout.parameters[name], strict=True))


def _uneven(case: Case, placements: dict[str, Placement], shape: tuple[int, ...], dim: int) -> bool:
    """Whether the axes that cut `dim`, the axis of tensor parallelism among them, leave a remainder."""
    return bool(
        shape[dim] % ways(dim, tuple(placements[axis] for axis in case.layout.mesh.names), case.layout.mesh)
    )


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins the process group and shards over the layout's mesh, of one axis or two."""
    with process_groups.joined(case, rank, rendezvous, kind=kind) as member:
        yield process_groups.local_session(
            member, lambda module: shard(case, module.to(member.device), member.mesh), quiet
        )


def shard(case: Case, module: "nn.Module", mesh: "DeviceMesh") -> "nn.Module":
    """`fully_shard` of the residual blocks and then of the rest, each parameter along the layout's dim.

    A block that uses a tied weight belongs to the rest, because FSDP2 requires modules that share a parameter
    in one group.
    """
    from torch.distributed.fsdp import fully_shard

    assert mesh.mesh_dim_names  # noqa: S101  our meshes have names
    dims = {
        parameter: dim(case, name, mesh.mesh_dim_names[-1]) for name, parameter in module.named_parameters()
    }
    placement = partial(_placement, dims)
    for path in reversed(_blocks(case)):
        fully_shard(module.get_submodule(path), mesh=mesh, shard_placement_fn=placement)
    fully_shard(module, mesh=mesh, shard_placement_fn=placement)
    return module


def _blocks(case: Case) -> list[str]:
    layers = list(walk(case.model.layers))
    tied = [path for path, layer in layers if layer.borrows()]
    return [
        p for p, layer in layers if layer.held is not None and not any(t.startswith(f"{p}.") for t in tied)
    ]


def dim(case: Case, name: str, axis: str) -> int:
    """The dim that `axis` shards.

    It is the first for an axis that the layout does not have, and for a weight whose tie a move broke.
    """
    placement = by_axis(case, name).get(axis) if name in case.layout.parameters else None
    return placement.dim if isinstance(placement, Shard) else 0


def _placement(dims: "dict[nn.Parameter, int]", parameter: "nn.Parameter") -> "TorchShard":
    from torch.distributed.tensor import Shard as TorchShard

    return TorchShard(dims[parameter])


def quiet(
    module: "nn.Module",
    last: bool,  # noqa: FBT001  the session's signature
) -> AbstractContextManager[None]:
    """Reduces gradients in the last accumulation part only."""
    cast("FSDPModule", module).set_requires_gradient_sync(last)
    return nullcontext()

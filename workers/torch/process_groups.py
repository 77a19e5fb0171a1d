"""What the backends over torch's own process groups share: joining, cutting the batch, reading the pieces.

torch is imported inside functions, because backends are listed on machines that have no torch.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import structs

from difftest.cases.case import Case
from difftest.cases.layout import Mesh, Placements, Replicate, Shard, local_slices
from difftest.judge.outcome import Array, Sharded
from workers.torch import devices, joining, strided
from workers.torch.inferred_shapes import inferred_once
from workers.torch.readers import Readers, is_uneven
from workers.training.pieces import global_shape, own_rows, sharded, values

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement

    from workers.training.session import Session

PRELOAD: tuple[str, ...] = (
    "workers.torch.preload",
    "torch",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch.distributed.tensor.experimental",
    "torch.distributed.tensor.parallel",
    "torch.nn.parallel",
)
"""What the runs import sooner or later.

It is one tuple for all backends of this side, so that one zygote serves them all. Where the tuple of another
backend begins with it, that backend's zygote is forked from this one.
"""


class Devices(Protocol):
    """What a kind of devices answers; `workers.torch.devices` has torch's own, and says what each is."""

    def find(self, case: Case, rank: int) -> "torch.device":
        """The device of a rank."""

    def transport(self, case: Case, device: "torch.device") -> str:
        """The name of the process group."""

    def groups(self, device: "torch.device", over: str, axes: tuple[str, ...]) -> dict[str, Any]:
        """The arguments of `init_device_mesh` about the groups along `axes`."""

    def describe(self, device: "torch.device") -> dict[str, str]:
        """What the numbers of a device may depend on, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One rank of a run: the case, its rank, its device of a kind, and torch's mesh over all ranks."""

    case: Case
    rank: int
    devices: Devices
    device: "torch.device"
    mesh: "DeviceMesh"


def processes(case: Case) -> int:
    """One per rank."""
    return case.world_size


def environment(_case: Case) -> dict[str, str]:
    """The child processes need no variables."""
    return {}


def cuts_rows_only(case: Case) -> bool:
    """Whether the batch is cut along dim 0 only, as a wrapper around a local module needs it."""
    return all(placement in (Shard(0), Replicate()) for placement in case.layout.batch)


@contextmanager
def joined(  # noqa: PLR0913  the rank's place, and what its mesh is
    case: Case,
    rank: int,
    rendezvous: str,
    mesh: Mesh | None = None,
    kind: Devices = devices,
    *,
    flattened: str = "",
) -> Iterator[Member]:
    """Joins the process group as `rank`, with torch's mesh of `mesh`'s shape, by default the layout's.

    The ranks have devices of one `kind`. The axis called `flattened`, if one is, is made of two by torch. The
    process stays in the group for the next run (`joining`).
    """
    from torch import distributed

    device, mesh = kind.find(case, rank), mesh or case.layout.mesh
    transport = kind.transport(case, device)
    axes = tuple(mesh.split(flattened)) if flattened else mesh.names
    groups = kind.groups(device, transport, axes)
    place = joining.RankPlace(rank, mesh, device, transport, flattened)
    over_all = joining.join(place, rendezvous, groups)
    with inferred_once(rendezvous):
        yield Member(case=case, rank=rank, devices=kind, device=device, mesh=over_all)
    distributed.barrier()


def local_session(
    member: Member,
    place: "Callable[[nn.Module], nn.Module]",
    quiet: "Callable[[nn.Module, bool], AbstractContextManager[None]]" = lambda _module, _last: nullcontext(),
) -> "Session":
    """A session of a wrapper, fed this rank's rows; gradients are averaged over the shares of the batch."""
    from workers.torch import collectives, flash
    from workers.torch.rules import Rules
    from workers.training.session import Session

    facts, rules, readers = describe(member), Rules(), Readers()
    return Session(
        dtype=dtype_of(member.case),
        place=place,
        feed=lambda tensor: own_rows(member.case, member.rank, tensor).to(member.device, copy=True),
        read=partial(read, member, readers=readers),
        device=member.device.type,
        scale=float(member.case.layout.batch_pieces),
        total=partial(_total, member),
        apart=member.case.layout.data_ranks > 1,
        quiet=quiet,
        operators=replace(
            flash.operators(member.case, facts), collect=collectives.collect(member.case, member.mesh)
        ),
        environment=facts,
        observe=rules.observe,
        events=lambda: structs.replace(rules.events(), misread=readers.misread),
    )


def dtype_of(case: Case) -> "torch.dtype":
    """The case's floating type."""
    import torch

    dtype: torch.dtype = getattr(torch, case.dtype)
    return dtype


def describe(member: Member) -> dict[str, str]:
    """What the numbers may depend on and the case does not say: versions, transport, threads, device."""
    import torch

    return {
        "torch": torch.__version__,
        "transport": member.devices.transport(member.case, member.device),
        "world_size": str(member.case.world_size),
        "threads": str(torch.get_num_threads()),
        "denormals": "kept",
        **member.devices.describe(member.device),
    }


def read(member: Member, tensor: "Tensor", placements: Placements, readers: Readers | None = None) -> Sharded:
    """The piece that this rank holds of a tensor expected at `placements`.

    A DTensor is read at the placements that it reports, and `readers` hold its `full_tensor` against that.
    """
    import torch
    from torch.distributed.tensor import DTensor

    with torch.no_grad():
        if isinstance(tensor, DTensor):
            piece, observed = _settled(member, tensor, placements, readers)
            return sharded(tensor, observed, {member.rank: piece})
        shape = global_shape(member.case, tensor, placements)
        return sharded(tensor, placements, {member.rank: _array(tensor)}, shape)


def _total(member: Member, loss: "Tensor") -> "Tensor":
    """The sum over the shares of the batch; axes along which the batch is replicated do not count."""
    from torch import distributed

    loss = loss.clone()
    for axis in (*member.case.layout.batch_axes, *member.case.layout.sequence_axes):
        distributed.all_reduce(loss, group=member.mesh.get_group(axis))
    return loss


def _settled(
    member: Member, tensor: "DTensor", expected: Placements, readers: Readers | None
) -> tuple[Array, Placements]:
    """The local part with its placements.

    What our layouts cannot express (partial sums, strided shards) is gathered and then cut as expected.
    """
    from torch.distributed import tensor as distributed

    mesh = member.case.layout.mesh
    if all(type(p) in (distributed.Shard, distributed.Replicate) for p in tensor.placements):
        piece, observed = _array(tensor.to_local()), _observed(mesh, tensor, expected)
        if readers and is_uneven(tensor):
            readers.compare(tensor, piece, local_slices(tensor.shape, observed, mesh, member.rank))
        return piece, observed
    if any(map(strided.is_strided, tensor.placements)):
        whole = strided.gathered(tensor, _array(tensor.to_local()))
        if readers:
            readers.compare(tensor, whole, (slice(None),) * whole.ndim)
    else:
        whole = _array(tensor.full_tensor())
    return whole[local_slices(whole.shape, expected, mesh, member.rank)], expected


def _observed(mesh: Mesh, tensor: "DTensor", expected: Placements) -> Placements:
    """The placements that a DTensor reports, by axis name.

    On an axis that it lacks it is a replica. An axis of one rank holds everything, and keeps the expected
    placement.
    """
    observed = dict(zip(tensor.device_mesh.mesh_dim_names or (), tensor.placements, strict=True))
    return tuple(
        ours if size == 1 else _ours(observed.get(name), tensor.dim())
        for (name, size), ours in zip(mesh.axes, expected, strict=True)
    )


def _ours(placement: "Placement | None", dims: int) -> Shard | Replicate:
    from torch.distributed.tensor import Shard as TorchShard

    return Shard(placement.dim % dims) if isinstance(placement, TorchShard) else Replicate()


def _array(tensor: "Tensor") -> Array:
    return values(tensor.detach().to("cpu", copy=True))

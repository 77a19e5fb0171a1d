"""Collectives by torch's process groups, for one tensor or for a list, as `torch.distributed` offers.

gloo has all of them except `all_to_all` over lists, for which it raises an error; for the tensors of GPUs
that ranks share it lacks more (`LACKING`). `_broadcast_coalesced` is the list form by which
`DistributedDataParallel` equalises its replicas; there is no public one. torch has no factor on a reduction:
the result is multiplied.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
import torch
from torch import Tensor, distributed

from difftest.cases.case import Case
from difftest.cases.layers.collective import Collective
from workers.torch.learned_collectives import carried_out, reduction
from workers.training import operators
from workers.training.memory import laid_out
from workers.training.parcels import packed, unpacked

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

BUFFER_BYTES = 2**20
"""How much `_broadcast_coalesced` sends at once; DDP's own buffers hold 250 MiB."""

LACKING = {("all_reduce", "list"), ("permute", "single"), ("permute", "list")}
"""What gloo does not do with CUDA tensors, without raising an error.

torch 2.9's `ProcessGroupGloo` treats their address as one of the host's. DTensor's own gathers do so too, and
die of SIGSEGV (pytorch/pytorch#152645; seen on an H100 with torch 2.11).
"""


def collect(case: Case, mesh: "DeviceMesh") -> Callable[[Tensor, Collective], Tensor]:
    """One rank's side of every collective over the axes of `mesh`; on one device, its definition."""
    if case.world_size == 1:
        return operators.collect

    def carry_out(tensor: Tensor, spec: Collective) -> Tensor:
        if spec.learned is not msgspec.UNSET:
            return carried_out(tensor, spec, mesh.get_group(spec.axis))
        with torch.no_grad():  # on the batch: nothing before it learns
            parcels = [_laid_out(parcel, spec) for parcel in packed(tensor, spec)]
            return unpacked(_dispatch(parcels, spec, mesh.get_group(spec.axis))) * spec.factor

    return carry_out


def _dispatch(parcels: list[Tensor], spec: Collective, group: distributed.ProcessGroup) -> list[Tensor]:
    if (
        (spec.operation, spec.form) in LACKING
        and spec.ranks > 1
        and parcels[0].is_cuda
        and distributed.get_backend(group) == "gloo"
    ):
        msg = f"{spec.operation} ({spec.form}) over gloo is not supported for the tensors of GPUs"
        raise NotImplementedError(msg)
    if spec.operation in ONE_BY_ONE:
        return [ONE_BY_ONE[spec.operation](parcel, spec, group) for parcel in parcels]
    if spec.operation == "permute":
        return _permute(parcels, spec.ranks, group)
    return (_all_reduce if spec.operation == "all_reduce" else _broadcast)(parcels, spec, group)


def _laid_out(parcel: Tensor, spec: Collective) -> Tensor:
    """A tensor that lies in memory as the case says; it shares none with others."""
    return laid_out(parcel, "strided") if spec.memory == "strided" else parcel


def _all_reduce(parcels: list[Tensor], spec: Collective, group: distributed.ProcessGroup) -> list[Tensor]:
    if spec.form == "list":
        distributed.all_reduce_coalesced(parcels, op=reduction(spec), group=group)
    else:
        distributed.all_reduce(parcels[0], op=reduction(spec), group=group)
    return parcels


def _broadcast(parcels: list[Tensor], spec: Collective, group: distributed.ProcessGroup) -> list[Tensor]:
    if spec.form == "list":
        coalesced = distributed._broadcast_coalesced  # type: ignore[attr-defined]  # noqa: SLF001
        coalesced(group, parcels, BUFFER_BYTES, 0)
    else:
        distributed.broadcast(parcels[0], group=group, group_src=0)
    return parcels


def _all_gather(parcel: Tensor, spec: Collective, group: distributed.ProcessGroup) -> Tensor:
    gathered = _laid_out(parcel.new_empty(spec.ranks, *parcel.shape[1:]), spec)
    if spec.form == "list":
        distributed.all_gather(list(gathered.split(1)), parcel, group=group)
    else:
        distributed.all_gather_into_tensor(gathered, parcel, group=group)
    return gathered


def _reduce_scatter(parcel: Tensor, spec: Collective, group: distributed.ProcessGroup) -> Tensor:
    own = _laid_out(torch.empty_like(parcel[:1]), spec)
    if spec.form == "list":
        distributed.reduce_scatter(own, list(parcel.split(1)), op=reduction(spec), group=group)
    else:
        distributed.reduce_scatter_tensor(own, parcel, op=reduction(spec), group=group)
    return own


def _all_to_all(parcel: Tensor, spec: Collective, group: distributed.ProcessGroup) -> Tensor:
    received = _laid_out(torch.empty_like(parcel), spec)
    if spec.form == "list":
        distributed.all_to_all(list(received.split(1)), list(parcel.split(1)), group=group)
    else:
        distributed.all_to_all_single(received, parcel, group=group)
    return received


def _reduce(parcel: Tensor, spec: Collective, group: distributed.ProcessGroup) -> Tensor:
    """What the first rank gets; what the others are left with is not defined, and counts as zeros."""
    distributed.reduce(parcel, op=reduction(spec), group=group, group_dst=0)
    return parcel if group.rank() == 0 else torch.zeros_like(parcel)


def _scatter(parcel: Tensor, spec: Collective, group: distributed.ProcessGroup) -> Tensor:
    own = _laid_out(torch.empty_like(parcel[:1]), spec)
    pieces = [_laid_out(piece, spec) for piece in parcel.split(1)] if group.rank() == 0 else None
    distributed.scatter(own, pieces, group=group, group_src=0)
    return own


ONE_BY_ONE: Mapping[str, Callable[[Tensor, Collective, distributed.ProcessGroup], Tensor]] = {
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "reduce": _reduce,
    "scatter": _scatter,
}
"""The operations that are called for one parcel after another; a list is the pieces of each."""


def _permute(parcels: list[Tensor], ranks: int, group: distributed.ProcessGroup) -> list[Tensor]:
    """Sends all parcels to the next rank and receives those of the previous one, as one batch.

    A rank that is alone keeps its own.
    """
    if ranks == 1:
        return parcels
    rank, received = group.rank(), [torch.empty_like(parcel) for parcel in parcels]
    sends = [
        distributed.P2POp(distributed.isend, p, group=group, group_peer=(rank + 1) % ranks) for p in parcels
    ]
    receives = [
        distributed.P2POp(distributed.irecv, p, group=group, group_peer=(rank - 1) % ranks) for p in received
    ]
    for work in distributed.batch_isend_irecv([*sends, *receives]):
        work.wait()
    return received

"""Collectives that gradients go through: those of `torch.distributed.nn`, and functional ones with autograd.

There is no such `permute`. What a rank does not get counts as zeros, as where no gradient goes through.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
import torch.distributed.nn.functional as differentiable
from torch import Tensor, distributed
from torch.distributed import _functional_collectives as functional_collectives

from difftest.cases.layers.collective import Collective
from workers.training.parcels import packed, unpacked


def carried_out(tensor: Tensor, spec: Collective, group: distributed.ProcessGroup) -> Tensor:
    """One rank's side of the collective, for its rows; it is differentiable."""
    if spec.parts == "uneven":
        return _uneven(tensor, spec, group) * spec.factor
    if spec.learned == "functional" and spec.operation == "all_reduce":
        return unpacked(_reduced(packed(tensor, spec), spec, group)) * spec.factor
    called = NN[spec.operation] if spec.learned == "nn" else _functional
    return unpacked([called(parcel, spec, group) for parcel in packed(tensor, spec)]) * spec.factor


def _reduced(parcels: list[Tensor], spec: Collective, group: distributed.ProcessGroup) -> list[Tensor]:
    """By the functional collectives, whose autograd is that of the operators that they dispatch."""
    functional = cast("Any", functional_collectives)
    if spec.form == "list":
        done = functional.all_reduce_coalesced(parcels, spec.reduction, group)
    else:
        done = [functional.all_reduce(parcels[0], spec.reduction, group)]
    return [cast("Tensor", functional.wait_tensor(one)) for one in done]


def _uneven(tensor: Tensor, spec: Collective, group: distributed.ProcessGroup) -> Tensor:
    """An `all_to_all` whose parts differ; a list of them is one tensor for each rank."""
    columns, rank = tensor.movedim(1, 0).contiguous(), group.rank()
    sent, received = list(spec.sent(rank)), list(spec.received(rank))
    if spec.learned == "functional":
        functional = cast("Any", functional_collectives)
        done = functional.all_to_all_single_autograd(columns, received, sent, group)
        return cast("Tensor", functional.wait_tensor(done)).movedim(0, 1)
    if spec.form == "list":
        parts = [columns.new_empty(wide, columns.shape[1]) for wide in received]
        return torch.cat(list(_nn.all_to_all(parts, list(columns.split(sent)), group=group))).movedim(0, 1)
    whole = torch.empty_like(columns)
    return cast("Tensor", _nn.all_to_all_single(whole, columns, received, sent, group=group)).movedim(0, 1)


def reduction(spec: Collective) -> distributed.ReduceOp.RedOpType:
    """The reduction as process groups take it."""
    operations = distributed.ReduceOp
    sums = {"sum": operations.SUM, "avg": operations.AVG}
    return {**sums, "max": operations.MAX, "min": operations.MIN}[spec.reduction]


def _first(group: distributed.ProcessGroup) -> int:
    return distributed.get_global_rank(group, 0)


def _reduce_scatter(parcel: Tensor, spec: Collective, group: distributed.ProcessGroup) -> Tensor:
    own, parts = torch.empty_like(parcel[:1]), list(parcel.split(1))
    return cast("Tensor", _nn.reduce_scatter(own, parts, op=reduction(spec), group=group))


def _reduce(parcel: Tensor, spec: Collective, group: distributed.ProcessGroup) -> Tensor:
    reduced = cast("Tensor", _nn.reduce(parcel, _first(group), op=reduction(spec), group=group))
    return reduced if group.rank() == 0 else reduced * 0.0


def _gather(parcel: Tensor, _spec: Collective, group: distributed.ProcessGroup) -> Tensor:
    gathered = torch.cat(list(_nn.gather(parcel, _first(group), group=group)))
    return gathered if group.rank() == 0 else gathered * 0.0


_nn = cast("Any", differentiable)  # torch declares no types for it

NN: Mapping[str, Callable[[Tensor, Collective, distributed.ProcessGroup], Tensor]] = {
    "all_reduce": lambda parcel, spec, group: _nn.all_reduce(parcel, op=reduction(spec), group=group),
    "all_gather": lambda parcel, _spec, group: torch.cat(list(_nn.all_gather(parcel, group=group))),
    "reduce_scatter": _reduce_scatter,
    "all_to_all": lambda parcel, _spec, group: _nn.all_to_all_single(
        torch.empty_like(parcel), parcel, group=group
    ),
    "broadcast": lambda parcel, _spec, group: _nn.broadcast(parcel, _first(group), group=group),
    "reduce": _reduce,
    "scatter": lambda parcel, _spec, group: _nn.scatter(list(parcel.split(1)), _first(group), group=group),
    "gather": _gather,
}


def _functional(parcel: Tensor, spec: Collective, group: distributed.ProcessGroup) -> Tensor:
    functional = cast("Any", functional_collectives)
    name, given = {
        "all_gather": ("all_gather_tensor", (0,)),
        "reduce_scatter": ("reduce_scatter_tensor", (spec.reduction, 0)),
        "all_to_all": ("all_to_all_single", (None, None)),
    }[spec.operation]
    call = getattr(functional, name if spec.learned == "plain" else f"{name}_autograd")
    return cast("Tensor", functional.wait_tensor(call(parcel, *given, group)))

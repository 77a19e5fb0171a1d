"""Collectives between XLA's replicas: those of `torch_xla.core.xla_model`, over groups of ordinals.

Where `xla_model` has a factor, it is used. Layouts are not pinned unless the case says so: `all_gather` with
pinned layouts is an all-reduce of what each rank pads by itself, a different graph for every rank. Where
`xla_model` takes no lists (`all_to_all`, `collective_permute`) each tensor of a list has its own call.
"""

from collections.abc import Callable

import torch
from msgspec import UNSET
from torch import Tensor

from difftest.cases.case import Case
from difftest.cases.layers.collective import Collective
from difftest.cases.layout import Mesh
from difftest.ground.errors import UnsupportedError
from workers.training import operators
from workers.training.parcels import packed, unpacked
from workers.xla.pinning import pinned

Groups = list[list[int]]

SCALED = ("all_reduce", "reduce_scatter")
"""Collectives that multiply by the factor themselves."""


def collect(case: Case, rank: Callable[[], int]) -> Callable[[Tensor, Collective], Tensor]:
    """One replica's side of every collective; on one device, its definition.

    `rank()` is the rank of the calling thread.
    """
    if case.world_size == 1:
        return operators.collect

    pins = pinned(case)

    def carry_out(tensor: Tensor, spec: Collective) -> Tensor:
        within = groups(case.layout.mesh, spec.axis)
        if spec.learned is not UNSET:
            return unpacked([_learned(parcel, spec, within) for parcel in packed(tensor, spec)]) * spec.factor
        with torch.no_grad():
            done = unpacked(_dispatch(packed(tensor, spec), spec, within, rank(), pinned=pins))
            return done if spec.operation in SCALED else done * spec.factor

    return carry_out


def _learned(parcel: Tensor, spec: Collective, within: Groups) -> Tensor:
    """An `all_reduce` with a gradient."""
    from torch_xla.core import functions

    mean = spec.reduction == "avg"
    reduced: Tensor = functions.all_reduce(
        "sum" if mean else spec.reduction, parcel, 1 / spec.ranks if mean else 1.0, within
    )
    return reduced


def groups(mesh: Mesh, axis: int) -> Groups:
    """The ranks that differ only along mesh axis number `axis`, group by group."""
    members: dict[tuple[int, ...], list[int]] = {}
    for rank in range(mesh.world_size):
        coordinate = mesh.coordinate(rank)
        members.setdefault(coordinate[:axis] + coordinate[axis + 1 :], []).append(rank)
    return list(members.values())


def _dispatch(
    parcels: list[Tensor], spec: Collective, within: Groups, rank: int, *, pinned: bool
) -> list[Tensor]:
    from torch_xla.core import xla_model as xm

    match spec.operation:
        case "all_reduce":
            return _each(
                parcels,
                spec,
                lambda p: xm.all_reduce(spec.reduction, p, spec.factor, within, pin_layout=pinned),
            )
        case "broadcast":
            root = next(group[0] for group in within if rank in group)
            xm.collective_broadcast(parcels, root, within, pin_layout=pinned)
            return parcels
        case "all_gather":
            pinned = pinned and spec.form == "single"  # xm.all_gather refuses to pin those of a list
            return _each(parcels, spec, lambda p: xm.all_gather(p, 0, within, pin_layout=pinned))
        case "reduce_scatter":
            how = spec.reduction, spec.factor, spec.ranks
            return _each(
                parcels,
                spec,
                lambda p: xm.reduce_scatter(how[0], p, how[1], 0, how[2], within, pin_layout=pinned),
            )
        case "all_to_all":
            return [xm.all_to_all(parcel, 0, 0, spec.ranks, within, pin_layout=pinned) for parcel in parcels]
        case "permute":
            pairs = [
                [source, target]
                for group in within
                for source, target in zip(group, [*group[1:], group[0]], strict=True)
            ]
            return [xm.collective_permute(parcel, pairs) for parcel in parcels]
        case "reduce" | "scatter" | "gather":
            msg = f"torch_xla's xla_model has no {spec.operation}"
            raise UnsupportedError(msg)


def _each(
    parcels: list[Tensor], spec: Collective, call: Callable[[list[Tensor] | Tensor], list[Tensor] | Tensor]
) -> list[Tensor]:
    """Calls with the whole list, or with the one tensor."""
    result = call(parcels if spec.form == "list" else parcels[0])
    return [result] if isinstance(result, Tensor) else list(result)

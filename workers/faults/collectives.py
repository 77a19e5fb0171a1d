"""Planted faults of collectives: the wrong group, a factor that is lost, rows that are left out.

They spoil the session's `collect`.
"""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import torch
from torch import Tensor

from difftest.cases.case import Case
from difftest.cases.layers.collective import Collective
from workers.faults import SHARDING, planted
from workers.training.session import Session

REAL = ("torch_ddp", "xla_replica")
"""Backends that call collectives themselves."""


def _with_changed_collectives(
    session: Session, case: Case, change: Callable[[Collective], Collective]
) -> Session:
    """The session that carries out `change(spec)` for every `spec`, except on one device."""

    def collect(tensor: Tensor, spec: Collective) -> Tensor:
        return session.operators.collect(tensor, change(spec) if case.world_size > 1 else spec)

    return replace(session, operators=replace(session.operators, collect=collect))


def _collective(case: Case) -> Collective | None:
    first = case.model.layers[0]
    return first if isinstance(first, Collective) and case.world_size > 1 else None


def _has_another_axis(case: Case) -> bool:
    """Two axes of equal sizes, so that the result has the same shape."""
    spec = _collective(case)
    return spec is not None and len(spec.mesh) > 1 and len(set(spec.mesh)) == 1


def _is_scaled(case: Case) -> bool:
    spec = _collective(case)
    return spec is not None and spec.factor != 1.0


@planted(
    about="a collective takes the groups of the other mesh axis",
    backends=REAL,
    blame=SHARDING,
    reaches=_has_another_axis,
)
def collective_over_the_other_axis(session: Session, case: Case, _rank: int) -> Session:
    """Exchanges the two axes of the mesh."""

    def other_axis(spec: Collective) -> Collective:
        return msgspec.structs.replace(spec, axis=1 - spec.axis) if len(spec.mesh) > 1 else spec

    return _with_changed_collectives(session, case, other_axis)


@planted(about="the factor of a collective is lost", backends=REAL, blame=SHARDING, reaches=_is_scaled)
def collective_factor_dropped(session: Session, case: Case, _rank: int) -> Session:
    """Puts 1 in the factor's place."""
    return _with_changed_collectives(session, case, lambda spec: msgspec.structs.replace(spec, factor=1.0))


def _broadcasts_strided(case: Case) -> bool:
    first = case.model.layers[0]
    if not isinstance(first, Collective) or first.memory is msgspec.UNSET:
        return False
    return first.operation == "broadcast" and first.ranks > 1


@planted(
    paths=("collective_layouts",),
    about="a broadcast of a tensor with strides reaches the first half of its rows alone",
    backends=("torch_ddp",),
    blame=SHARDING,
    reaches=_broadcasts_strided,
)
def strides_lost(session: Session, case: Case, _rank: int) -> Session:
    """The others stay what they are."""
    right = session.operators.collect
    if case.world_size == 1:
        return session

    def collect(tensor: Tensor, spec: Collective) -> Tensor:
        done, half = right(tensor, spec), len(tensor) // 2
        return torch.cat([done[: len(tensor) - half], tensor[len(tensor) - half :] * spec.factor])

    return replace(session, operators=replace(session.operators, collect=collect))

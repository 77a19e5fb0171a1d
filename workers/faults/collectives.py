"""Defects of collectives: asked of the wrong group, and a factor that is lost on the way. The session's `collect` is what is spoiled."""

import dataclasses
from collections.abc import Callable

import msgspec
from torch import Tensor

from difftest.cases.case import Case
from difftest.cases.layers import Collective
from workers.faults import SHARDING, Fault
from workers.training.session import Session

REAL = ("torch_ddp", "xla_replica")
"""Backends that ask for collectives themselves."""


def _asking(change: Callable[[Collective], Collective]) -> Callable[[Session, Case, int], Session]:
    """Plants another question in the place of each; on one device there is nobody to ask."""

    def plant(session: Session, case: Case, _rank: int) -> Session:
        def collect(tensor: Tensor, spec: Collective) -> Tensor:
            return session.operators.collect(tensor, change(spec) if case.world_size > 1 else spec)

        return dataclasses.replace(session, operators=dataclasses.replace(session.operators, collect=collect))

    return plant


def _other_axis(spec: Collective) -> Collective:
    return msgspec.structs.replace(spec, axis=1 - spec.axis) if len(spec.mesh) > 1 else spec


def _unscaled(spec: Collective) -> Collective:
    return msgspec.structs.replace(spec, factor=1.0)


def _collective(case: Case) -> Collective | None:
    first = case.model.layers[0]
    return first if isinstance(first, Collective) and case.world_size > 1 else None


def _has_another_axis(case: Case) -> bool:
    """Two axes of equal sizes, so that what comes back has the same shape."""
    spec = _collective(case)
    return spec is not None and len(spec.mesh) > 1 and len(set(spec.mesh)) == 1


def _is_scaled(case: Case) -> bool:
    spec = _collective(case)
    return spec is not None and spec.factor != 1.0


FAULTS = (
    Fault(
        name="collective_over_the_other_axis",
        about="a collective takes the groups of the other mesh axis",
        backends=REAL,
        blame=SHARDING,
        reaches=_has_another_axis,
        plant=_asking(_other_axis),
    ),
    Fault(
        name="collective_factor_dropped",
        about="the factor of a collective is lost",
        backends=REAL,
        blame=SHARDING,
        reaches=_is_scaled,
        plant=_asking(_unscaled),
    ),
)

"""Planted faults of layers that are sharded over different axes."""

from collections.abc import Iterator
from dataclasses import replace

from torch import nn

from difftest.cases.case import Case
from difftest.cases.gathered import axes_apart
from workers.faults import SHARDING, planted
from workers.training.session import Session


@planted(
    paths=("several_meshes",),
    about="gradients are clipped mesh by mesh",
    backends=("torch_dtensor", "xla_spmd"),
    blame=SHARDING,
    reaches=lambda case: (
        bool(axes_apart(case)) and case.training.clip_norm is not None and min(case.layout.mesh.shape) > 1
    ),
)
def clipped_by_mesh(session: Session, case: Case, _rank: int) -> Session:
    """Those of every layer that is sharded over the same axis, by a norm of their own."""
    if case.world_size == 1:
        return session
    apart = axes_apart(case)

    def clip(trained: Iterator[nn.Parameter], norm: float) -> None:
        parameters = dict(zip(case.layout.parameters, trained, strict=True))
        for axis in {*apart.values()}:
            own = [one for name, one in parameters.items() if apart[name.partition(".")[0]] == axis]
            session.clip(iter(own), norm)

    return replace(session, clip=clip)

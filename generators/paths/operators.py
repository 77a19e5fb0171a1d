"""Programs of operators: torch's operators one by one and in chains, with their tensors in every placement.

Its cases follow a schedule (`generators.operators.schedule`), which has chains between and after the
enumeration; `models` and `layouts` draw these.
"""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from generators.chances import always, equally, weighted
from generators.layers import Placement
from generators.models import Purpose
from generators.operators import schedule
from generators.operators.chains import chains
from generators.operators.programs import single
from generators.paths import as_drawn

DEFAULT = True
IN_BLOCKS = True
HAS_FEATURES = False
TAKES_ANY_MODEL = False

completed = as_drawn


def scheduled(*, seed: int, index: int, max_world_size: int) -> Case | Mesh | None:
    """A program of one operator, or the mesh of a chain."""
    place = schedule.place_at(seed, index, max_world_size=max_world_size)
    if place.single is None:
        return place.mesh
    return single(place.single, path=__name__.rpartition(".")[2], mesh=place.mesh, seed=seed)


def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """The meshes of the schedule."""
    return equally(*schedule.meshes(max_world_size))


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:  # noqa: ARG001  any mesh will do
    """Programs are neither exact nor learnable."""
    return always("ordinary")


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:  # noqa: ARG001  any mesh will do
    """Chains of operators."""
    return chains().map(lambda operators: Model(layers=operators))


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """Every tensor whole or sharded along any of its dims, over each axis by itself."""
    parameters = {
        name: tuple(draw(_over_axis(dims=len(shape))) for _ in mesh.axes)
        for name, shape in model.tensors().items()
    }
    return Layout(mesh=mesh, batch=(Replicate(),) * len(mesh.axes), parameters=parameters)


@functools.cache
def _over_axis(*, dims: int) -> SearchStrategy[Placement]:
    whole: tuple[int, Placement] = (max(dims, 1), Replicate())
    return weighted(whole, *((2, Shard(dim)) for dim in range(dims)))

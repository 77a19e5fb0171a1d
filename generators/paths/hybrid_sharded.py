"""Hybrid sharded data parallel: fully sharded within a group of ranks, replicated between groups."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from generators import layouts as places
from generators import models as shapes
from generators import training
from generators.models import Purpose
from generators.paths import as_drawn, drawn_alone

DEFAULT = True
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = True

scheduled = drawn_alone
completed = as_drawn
purposes = training.purposes


def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """Two axes: groups, and the ranks of a group."""
    return places.meshes(axes=("dp_replicate", "dp_shard"), max_world_size=max_world_size)


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:  # noqa: ARG001  any model will do
    """Any model."""
    return shapes.models(purpose=purpose)


def layouts(*, model: Model, mesh: Mesh) -> SearchStrategy[Layout]:
    """The batch sharded over both axes, every parameter over the second."""
    parameters = (places.same(model, Replicate()), places.same(model, Shard(0)))
    return st.just(places.zipped(mesh=mesh, batch=(Shard(0), Shard(0)), parameters=parameters))

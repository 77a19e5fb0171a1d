"""Features of training, as a scheduler or saving and loading: any model, replicated or sharded."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from generators import layouts as places
from generators import models as shapes
from generators.chances import always, mixed
from generators.models import Purpose
from generators.paths import as_drawn, drawn_alone

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = True
TAKES_ANY_MODEL = True

scheduled = drawn_alone
completed = as_drawn

AXES = ((3, ("dp",)), (2, ("dp_shard",)))
SHARDED = "dp_shard"


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:  # noqa: ARG001  any mesh will do
    """Neither exact nor learnable: features round, and are for few steps."""
    return always("ordinary")


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """One axis, over which parameters are whole or sharded."""
    choices = ((weight, places.meshes(axes=axes, max_world_size=max_world_size)) for weight, axes in AXES)
    return mixed(*choices)


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:  # noqa: ARG001  any mesh will do
    """Any model."""
    return shapes.models(purpose=purpose)


def layouts(*, model: Model, mesh: Mesh) -> SearchStrategy[Layout]:
    """The batch sharded; every parameter whole, or sharded along dim 0."""
    at = Shard(0) if SHARDED in mesh.names else Replicate()
    return st.just(places.zipped(mesh=mesh, batch=(Shard(0),), parameters=(places.same(model, at),)))

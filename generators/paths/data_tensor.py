"""Data and tensor parallel together: layers sharded over `tp`, the batch over one or two data axes."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from generators import layouts as places
from generators import models as shapes
from generators import training
from generators.chances import mixed, sometimes
from generators.layers import ByParameter, Placement
from generators.models import Purpose
from generators.paths import as_drawn, drawn_alone

DEFAULT = True
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = True

scheduled = drawn_alone
completed = as_drawn
purposes = training.purposes

AXES = ((2, ("dp", "tp")), (2, ("dp_shard", "tp")), (1, ("dp_replicate", "dp_shard", "tp")))


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """One or two data axes, then `tp`."""
    choices = ((weight, places.meshes(axes=axes, max_world_size=max_world_size)) for weight, axes in AXES)
    return mixed(*choices)


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:
    """Models with widths and heads that `tp` usually divides, some of which move their activations."""
    return shapes.moving(models=shapes.models(purpose=purpose, unit=mesh.shape[-1]), axes=len(mesh.axes))


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """Each data axis as in its own path, `tp` as in tensor parallel."""
    sliced = draw(places.tensor_placements(model=model, size=mesh.shape[-1]))
    nested = draw(sometimes(one_in=3))
    over_data = [_over(name, model, sliced, nested=nested) for name in mesh.names[:-1]]
    batch: list[Placement] = [*[Shard(0)] * len(over_data), Replicate()]
    return places.zipped(mesh=mesh, batch=batch, parameters=(*over_data, sliced))


def _over(axis: str, model: Model, sliced: ByParameter, *, nested: bool) -> ByParameter:
    """The placements over one data axis.

    `nested` also shards dim 0 where `tp` does; few backends can express a dim that is sharded twice.
    """
    if axis != "dp_shard":
        return places.same(model, Replicate())
    return {
        name: Replicate() if over_tp == Shard(0) and not nested else Shard(0)
        for name, over_tp in sliced.items()
    }

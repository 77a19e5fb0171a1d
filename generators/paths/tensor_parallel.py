"""Tensor parallel: every rank has the whole batch and slices of the layers, usually in Megatron's pattern."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layout import Layout, Mesh, Replicate
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
    """One axis, `tp`."""
    return places.meshes(axes=("tp",), max_world_size=max_world_size)


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:
    """Models with widths and heads that the axis usually divides, some of which move their activations."""
    return shapes.moving(models=shapes.models(purpose=purpose, unit=mesh.world_size), axes=1)


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """The batch whole; each layer's parameters sharded or not."""
    placed = draw(places.tensor_placements(model=model, size=mesh.world_size))
    return places.zipped(mesh=mesh, batch=(Replicate(),), parameters=(placed,))

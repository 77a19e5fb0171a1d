"""Collectives of tensors with strides, and `reduce` and `scatter`, which the path `collectives` lacks.

Its meshes, purposes and layouts are those of that path, whose cases keep their numbers.
"""

import functools
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Layout, Mesh
from difftest.cases.model import Model
from generators.layers.collective import strided
from generators.models import Purpose
from generators.paths import as_drawn, collectives, drawn_alone

if TYPE_CHECKING:
    from difftest.cases.layer import Layer

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone
completed = as_drawn


def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """Those of collectives."""
    return collectives.meshes(max_world_size=max_world_size)


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:
    """Those of collectives."""
    return collectives.purposes(mesh=mesh)


@functools.cache
@st.composite
def models(draw: st.DrawFn, *, mesh: Mesh, purpose: Purpose) -> Model:
    """The collective and a Linear layer."""
    exact = purpose == "exact"
    first = draw(strided(mesh=mesh, exact=exact))
    outputs = draw(st.sampled_from((4, 1, 2, 8)))
    layers: tuple[Layer, ...] = (
        first,
        Linear(inputs=first.outputs, outputs=outputs, bias=draw(st.booleans())),
    )
    return Model(layers=layers)


def layouts(*, model: Model, mesh: Mesh) -> SearchStrategy[Layout]:
    """Those of collectives."""
    return collectives.layouts(model=model, mesh=mesh)

"""Collectives of tensors with strides, and `reduce` and `scatter`, which the path `collectives` lacks.

Its meshes, purposes and layouts are those of that path, whose cases keep their numbers.
"""

import functools
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Mesh
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
meshes = collectives.meshes
purposes = collectives.purposes
layouts = collectives.layouts
completed = as_drawn


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

"""Collectives with gradients as the path `learned_collectives` lacks them: uneven parts, lists of tensors.

Meshes, layouts and what completes a case are of that path, whose cases keep their numbers.
"""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Mesh
from difftest.cases.model import Model
from generators.chances import always, weighted
from generators.layers.collective import listed
from generators.models import Purpose
from generators.paths import drawn_alone, learned_collectives
from generators.training import fits_exact

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone
meshes = learned_collectives.meshes
layouts = learned_collectives.layouts
completed = learned_collectives.usual_numbers


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:
    """Mostly ordinary: the least or the greatest is taken there alone."""
    return weighted((1, "exact"), (4, "ordinary")) if fits_exact(mesh) else always("ordinary")


@functools.cache
@st.composite
def models(draw: st.DrawFn, *, mesh: Mesh, purpose: Purpose) -> Model:
    """A Linear layer, the collective, and another Linear layer."""
    between = draw(listed(mesh=mesh, exact=purpose == "exact"))
    return Model(
        layers=(
            Linear(inputs=draw(st.sampled_from((2, 3))), outputs=between.width, bias=draw(st.booleans())),
            between,
            Linear(
                inputs=between.outputs, outputs=draw(st.sampled_from((4, 1, 2))), bias=draw(st.booleans())
            ),
        )
    )

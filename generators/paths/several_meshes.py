"""Layers that are sharded over different axes of one mesh, as experts beside what is not one of them.

Every rank has the whole batch, so that a layer's gradients are the same on every rank that has them. Many
cases clip their gradients, over all meshes at once.
"""

from itertools import cycle
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from generators import layouts as places
from generators import models as shapes
from generators.chances import always, equally
from generators.models import Purpose
from generators.paths import drawn_alone

if TYPE_CHECKING:
    from generators.layers import Placement

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone

AXES = ("dp_shard", "ep")


def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """Two axes, over each of which some layers are sharded."""
    return places.meshes(axes=AXES, max_world_size=max_world_size)


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:  # noqa: ARG001  any mesh will do
    """Ordinary: clipping rounds."""
    return always("ordinary")


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:  # noqa: ARG001  any mesh will do
    """Models of vectors: their layers share no weights."""
    return shapes.vector_models()


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """The batch whole; successive layers over the one axis and the other."""
    axes = cycle(draw(st.permutations(range(len(mesh.axes)))))
    whole: list[Placement] = [Replicate()] * len(mesh.axes)
    layers = dict.fromkeys(name.partition(".")[0] for name in model.parameters())
    over = dict(zip(layers, axes, strict=False))
    placed = {
        name: tuple(Shard(0) if axis == over[name.partition(".")[0]] else at for axis, at in enumerate(whole))
        for name in model.parameters()
    }
    return Layout(mesh=mesh, batch=tuple(whole), parameters=placed)


@st.composite
def completed(draw: st.DrawFn, *, case: Case) -> Case:
    """Clipped in two of three cases."""
    norm = draw(equally(0.25, 1.0, None))
    return case.changed("training", clip_norm=norm)

"""Collectives: one of them on every rank's rows, over one axis that shards the batch, then a small Linear.

Most cases are exact: a collective moves numbers or adds a few of them, so the expected bits are known.
"""

import functools
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.activation import Activation
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from generators import layouts as places
from generators.chances import mixed, sometimes, weighted
from generators.layers.collective import collectives
from generators.models import Purpose
from generators.paths import as_drawn, drawn_alone
from generators.training import fits_exact

if TYPE_CHECKING:
    from difftest.cases.layer import Layer

DEFAULT = True
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone
completed = as_drawn

AXES = ((2, ("dp",)), (1, ("dp_shard",)), (3, ("dp_replicate", "dp_shard")))
SHARDED = "dp_shard"


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """One axis, or two; over one of two the collective works in groups of ranks."""
    return mixed(
        *((weight, places.meshes(axes=axes, max_world_size=max_world_size)) for weight, axes in AXES)
    )


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:
    """Never learnable: a teacher answers for one row, and a collective mixes rows."""
    return weighted((2, "exact"), (1, "ordinary")) if fits_exact(mesh) else st.just("ordinary")


@functools.cache
@st.composite
def models(draw: st.DrawFn, *, mesh: Mesh, purpose: Purpose) -> Model:
    """The collective, a Linear and, where rounding is allowed, sometimes an activation and another."""
    exact = purpose == "exact"
    first = draw(collectives(mesh=mesh, exact=exact))
    outputs = draw(st.sampled_from((4, 1, 2, 8) if exact else (4, 3, 5, 8)))
    layers: list[Layer] = [first, Linear(inputs=first.outputs, outputs=outputs, bias=draw(st.booleans()))]
    if not exact and draw(sometimes(one_in=3)):
        last = Linear(inputs=outputs, outputs=draw(st.sampled_from((4, 3, 2))), bias=draw(st.booleans()))
        layers += [Activation(function="tanh"), last]
    return Model(layers=tuple(layers))


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """The batch sharded over every axis; parameters whole, or in a third sharded over `dp_shard`.

    Fully sharding wrappers need sharded parameters.
    """
    cut = SHARDED in mesh.names and draw(sometimes(one_in=3))
    by_axis = [
        places.same(model, Shard(0) if cut and name == SHARDED else Replicate()) for name in mesh.names
    ]
    return places.zipped(mesh=mesh, batch=[Shard(0)] * len(mesh.axes), parameters=by_axis)

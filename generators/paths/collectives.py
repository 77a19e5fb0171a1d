"""Collectives: one of them on the rows of every rank, over one axis of a mesh that cuts the batch, and a small Linear after it.

Mostly exact: a collective moves numbers or adds a few, so what comes out is known to the bit.
"""

from typing import TYPE_CHECKING, Literal

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.activation import Activation
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from generators import layouts as places
from generators.chances import mixed, sometimes, weighted
from generators.models import Purpose
from generators.training import fits_exact

if TYPE_CHECKING:
    from difftest.cases.layer import Layer

AXES = ((2, ("dp",)), (1, ("dp_shard",)), (3, ("dp_replicate", "dp_shard")))
SHARDED = "dp_shard"

OPERATIONS: tuple[
    Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "broadcast"], ...
] = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "permute",
    "broadcast",
)
FACTORS = (1.0, 2.0, 0.5)
"""Powers of two: they round nothing."""
OTHER_FACTORS = (1.5, 0.75, 0.25)
"""Numbers that every dtype has."""


def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """One axis, or two of which the collective takes one: groups."""
    return mixed(
        *((weight, places.meshes(axes=axes, max_world_size=max_world_size)) for weight, axes in AXES)
    )


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:
    """Never to be learned: a teacher answers for one row, and a collective mixes them."""
    return weighted((2, "exact"), (1, "ordinary")) if fits_exact(mesh) else st.just("ordinary")


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
def collectives(draw: st.DrawFn, *, mesh: Mesh, exact: bool) -> Collective:
    """Any of them over any axis of `mesh`; widths divide into the slices that it needs, and into halves for a list."""
    axis, operation = draw(st.integers(0, len(mesh.axes) - 1)), draw(st.sampled_from(OPERATIONS))
    reduces = operation in ("all_reduce", "reduce_scatter")
    form: Literal["single", "list"] = draw(weighted((2, "single"), (1, "list")))
    slices = mesh.shape[axis] if operation in ("reduce_scatter", "all_to_all") else 1
    widths = (2, 4, 6, 8) if form == "list" else (2, 1, 3, 4, 5, 8)
    return Collective(
        operation=operation,
        width=slices * draw(st.sampled_from(widths[:3] if slices > 1 else widths)),
        mesh=mesh.shape,
        axis=axis,
        reduction=draw(weighted((4, "sum"), (1, "max"), (1, "min"))) if reduces else "sum",
        factor=draw(st.sampled_from(FACTORS if exact else (*FACTORS, *OTHER_FACTORS))),
        form=form,
    )


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """The batch cut over every axis; parameters whole, or seldom cut over `dp_shard`, which fully sharding wrappers need."""
    cut = SHARDED in mesh.names and draw(sometimes(one_in=3))
    by_axis = [
        places.same(model, Shard(0) if cut and name == SHARDED else Replicate()) for name in mesh.names
    ]
    return places.zipped(mesh=mesh, batch=[Shard(0)] * len(mesh.axes), parameters=by_axis)

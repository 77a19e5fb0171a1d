"""A module of the user's is described, not drawn; its parameters are placed in all ways."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.own import Own
from difftest.cases.layout import Replicate, Shard
from generators.chances import equally, weighted
from generators.layers import Block, ByParameter, Cut, Placement

BLOCKS: tuple[Block, ...] = ()


def placements(*, layer: Own, size: int, cut: Cut) -> SearchStrategy[ByParameter]:
    """Most often cuts that leave no remainder, of dim 0 alone or of any; sometimes any cut.

    Half of those on an axis for which the source has a plan of styles are what that gives.
    """
    return drawn(layer=layer, size=size)


@st.composite
def drawn(draw: st.DrawFn, *, layer: Own, size: int) -> ByParameter:
    """The placements over an axis of `size` ranks."""
    kinds = [(3, "first"), (3, "even"), (2, "any"), *([(8, "styled")] if size in layer.styled_on else [])]
    if (kind := draw(weighted(*kinds))) == "styled":
        return layer.styled_placements()
    return {name: draw(equally(*_choices(shape, size, kind))) for name, shape in layer.parameters.items()}


def _choices(shape: tuple[int, ...], size: int, kind: str) -> tuple[Placement, ...]:
    """The whole, and the cuts of this kind."""
    dims = range(1 if kind == "first" and shape else len(shape))
    cuts = (Shard(dim) for dim in dims if kind == "any" or not shape[dim] % size)
    return (Replicate(), *cuts)

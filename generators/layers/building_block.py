"""Building blocks are drawn by the path `blocks`; no other model has them."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.block import declared
from difftest.cases.layers.building_block import BuildingBlock
from difftest.cases.layout import Replicate, Shard
from generators.chances import equally, weighted
from generators.layers import Block, ByParameter, Cut, Placement

BLOCKS: tuple[Block, ...] = ()


def placements(*, layer: BuildingBlock, size: int, cut: Cut) -> SearchStrategy[ByParameter]:
    """Every parameter whole, or cut along a dim that its block allows, usually without a remainder."""
    return _placements(layer=layer, size=size)


@st.composite
def _placements(draw: st.DrawFn, *, layer: BuildingBlock, size: int) -> ByParameter:
    cuts = declared(layer.block, layer.arguments).cuts
    uneven, placed = draw(weighted((3, False), (1, True))), dict[str, Placement]()
    for name, shape in layer.shapes().items():
        dims = cuts.get(name, (0,)) if shape else ()
        allowed: list[Placement] = [Shard(dim) for dim in dims if uneven or not shape[dim] % size]
        placed[name] = draw(equally(Replicate(), *allowed))
    return placed

"""How dropout is drawn."""

import functools

from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.dropout import Dropout
from generators.chances import equally
from generators.layers import Block, Layers, kept_whole


@functools.cache
def dropouts(width: int, _unit: int) -> SearchStrategy[Layers]:
    """Between blocks, where every rank has the whole width: the mask is cut like the batch."""
    return equally(*((Dropout(width=width, share=share),) for share in (0.5, 0.25, 0.125)))


placements = kept_whole


BLOCKS: tuple[Block, ...] = (Block(order=6, weight=1, strategy=dropouts),)

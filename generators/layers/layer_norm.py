"""How layer normalisation is drawn, and norms of either kind."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layer import Layer
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.rms_norm import RMSNorm
from generators.layers import Block, Layers, kept_whole

LEAST_WIDTH = 3
"""Over two numbers a LayerNorm keeps only their order: its gradient is nothing but cancellation."""


@functools.cache
def norms(*, width: int) -> SearchStrategy[Layer]:
    """Either norm; over narrow widths only the one without a mean."""
    kinds: list[Layer] = [RMSNorm(width=width)]
    return st.sampled_from([*kinds, LayerNorm(width=width)] if width >= LEAST_WIDTH else kinds)


@functools.cache
@st.composite
def alone(draw: st.DrawFn, width: int, _unit: int) -> Layers:
    """A norm by itself."""
    return (draw(norms(width=width)),)


placements = kept_whole


BLOCKS: tuple[Block, ...] = (Block(order=2, weight=1, strategy=alone),)

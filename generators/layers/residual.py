"""How residual blocks of linear layers are drawn; attention and convolutions draw their own."""

import functools

from hypothesis import strategies as st

from difftest.cases.layers.residual import Residual
from generators.layers import Block, Layers, kept_whole
from generators.layers.activation import activations
from generators.layers.layer_norm import norms
from generators.layers.linear import draw_linear
from generators.sizes import widths


@functools.cache
@st.composite
def mlps(draw: st.DrawFn, *, width: int, unit: int = 1) -> Residual:
    """The transformer's residual block: norm, Linear, activation, Linear."""
    hidden = draw(widths(unit=unit))
    up = draw_linear(draw, inputs=width, outputs=hidden)
    down = draw_linear(draw, inputs=hidden, outputs=width)
    return Residual(layers=(draw(norms(width=width)), up, draw(activations()), down))


@functools.cache
@st.composite
def alone(draw: st.DrawFn, width: int, unit: int) -> Layers:
    """One of them."""
    return (draw(mlps(width=width, unit=unit)),)


placements = kept_whole


BLOCKS: tuple[Block, ...] = (Block(order=0, weight=3, strategy=alone),)

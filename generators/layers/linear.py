"""How linear layers are drawn."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Shard
from generators.layers import Block, ByParameter, Cut, Layers, along_dim_0, whole
from generators.layers.activation import activations
from generators.sizes import widths


def draw_linear(draw: st.DrawFn, *, inputs: int, outputs: int, tied: bool = False) -> Linear:
    """With or without a bias."""
    return Linear(inputs=inputs, outputs=outputs, bias=draw(st.booleans()), tied=tied)


@functools.cache
@st.composite
def pairs(draw: st.DrawFn, width: int, unit: int) -> Layers:
    """Two with an activation between, to another width and back."""
    hidden = draw(widths(unit=unit))
    up = draw_linear(draw, inputs=width, outputs=hidden)
    return (up, draw(activations()), draw_linear(draw, inputs=hidden, outputs=width))


def placements(*, layer: Linear, size: int, cut: Cut) -> SearchStrategy[ByParameter]:
    """As `cut` says; only the weight is cut by rows, and a tied layer has none."""
    replicated = whole(layer)
    by_rows = {**replicated, "weight": Shard(1)} if "weight" in replicated else replicated
    return st.just({"columns": along_dim_0(layer), "rows": by_rows, "whole": replicated}[cut])


BLOCKS: tuple[Block, ...] = (Block(order=1, weight=2, strategy=pairs),)

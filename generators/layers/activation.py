"""How activation functions are drawn."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.activation import Activation, Function
from difftest.cases.layers.linear import Linear
from generators.layers import Block, Layers, kept_whole


@functools.cache
def activations() -> SearchStrategy[Activation]:
    """All functions."""
    functions: tuple[Function, ...] = ("relu", "gelu", "silu", "tanh")
    return st.sampled_from([Activation(function=function) for function in functions])


@functools.cache
@st.composite
def before_linear(draw: st.DrawFn, width: int, _unit: int) -> Layers:
    """One, and a linear layer that keeps the width."""
    return (draw(activations()), Linear(inputs=width, outputs=width, bias=draw(st.booleans())))


placements = kept_whole


BLOCKS: tuple[Block, ...] = (Block(order=3, weight=1, strategy=before_linear),)

"""How convolutions are drawn."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.conv import Conv
from difftest.cases.layers.residual import Residual
from generators.chances import weighted
from generators.layers import Block, ByParameter, Cut, Layers, along_dim_0, whole
from generators.layers.activation import activations


@functools.cache
def convs(*, inputs: int, outputs: int) -> SearchStrategy[Conv]:
    """With kernels of 1, 3 or 5 positions."""
    kernels = ((3, 3), (1, 1), (1, 5))
    return weighted(
        *((weight, Conv(inputs=inputs, outputs=outputs, kernel=kernel)) for weight, kernel in kernels)
    )


@functools.cache
@st.composite
def activated(draw: st.DrawFn, width: int, _unit: int) -> Layers:
    """A convolution and an activation, plain or residual."""
    layers: Layers = (draw(convs(inputs=width, outputs=width)), draw(activations()))
    return draw(st.sampled_from((layers, (Residual(layers=layers),))))


def placements(*, layer: Conv, size: int, cut: Cut) -> SearchStrategy[ByParameter]:
    """Whole, or cut by outputs."""
    return st.sampled_from((whole(layer), along_dim_0(layer)))


BLOCKS: tuple[Block, ...] = (Block(order=5, weight=2, strategy=activated, needs_sequence=True),)

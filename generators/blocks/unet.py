"""One level of a UNet: halved, convolved, normalized by groups, interpolated back, and joined with the input.

The input and the output are images of `side` x `side` in a row.
"""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, size
from generators.chances import equally

WEIGHT = 2


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """Channels in `groups` groups of two; how the smaller image is made larger again."""
    return st.fixed_dictionaries(
        {
            "groups": equally(2 * unit, 2, 1),
            "side": equally(4, 6),
            "mode": equally("nearest", "bilinear", "corners"),
        }
    )


def declared(arguments: Arguments) -> Declared:
    """Two kernels with biases, and the norm's scale and shift."""
    channels, side = 2 * size(arguments, "groups"), size(arguments, "side")
    inner: dict[str, tuple[int, ...]] = {
        "inner.weight": (channels, channels, 3, 3),
        "inner.bias": (channels,),
    }
    norm = {"norm.weight": (channels,), "norm.bias": (channels,)}
    joined = {"joined.weight": (channels, 2 * channels, 1, 1), "joined.bias": (channels,)}
    width = channels * side * side
    cuts = {"inner.weight": (0, 1), "joined.weight": (0, 1)}
    return Declared(parameters={**inner, **norm, **joined}, inputs=width, outputs=width, cuts=cuts)

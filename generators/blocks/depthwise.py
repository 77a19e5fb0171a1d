"""A convolution of every channel by itself, then one over channels, as in MobileNet and Mamba."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, linear, size
from generators.chances import equally
from generators.sizes import widths

WEIGHT = 1


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """A kernel that looks back; with a `multiplier` every channel has several filters."""
    return st.fixed_dictionaries(
        {"width": widths(unit=unit), "kernel": equally(4, 3, 2), "multiplier": equally(1, 2)}
    )


def declared(arguments: Arguments) -> Declared:
    """A kernel for every channel, and a matrix over channels."""
    width, kernel = size(arguments, "width"), size(arguments, "kernel")
    filters = width * size(arguments, "multiplier")
    depthwise = {"depthwise.weight": (filters, 1, kernel), "depthwise.bias": (filters,)}
    return Declared(
        parameters={**depthwise, **linear("pointwise", width, filters)},
        inputs=width,
        outputs=width,
        positions=True,
        cuts={"pointwise.weight": (0, 1)},
    )

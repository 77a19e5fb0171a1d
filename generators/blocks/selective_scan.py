"""A selective state space model, step by step: Mamba's scan, with steps and states that follow the input."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, linear, size
from generators.chances import equally
from generators.sizes import widths

WEIGHT = 2


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """The number of channels, and that of states of each."""
    return st.fixed_dictionaries({"width": widths(unit=unit), "states": equally(4, 2, 1)})


def declared(arguments: Arguments) -> Declared:
    """Decay rates, a skip weight, and the projections of step sizes, inputs and outputs of the states."""
    width, states = size(arguments, "width"), size(arguments, "states")
    parameters: dict[str, tuple[int, ...]] = {"rates": (width, states), "skip": (width,)}
    parameters |= linear("steps", width, width, bias=True)
    parameters |= linear("entering", states, width)
    parameters |= linear("leaving", states, width)
    return Declared(parameters=parameters, inputs=width, outputs=width, positions=True)

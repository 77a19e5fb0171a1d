"""A Linear layer whose weight is a direction times a magnitude for every output (weight normalization)."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, size
from generators.sizes import widths

WEIGHT = 1

MAGNITUDE, DIRECTION = (f"linear.parametrizations.weight.original{number}" for number in range(2))
"""Torch's names."""


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """Widths."""
    return st.fixed_dictionaries({"inputs": widths(unit=unit), "outputs": widths(unit=unit)})


def declared(arguments: Arguments) -> Declared:
    """A magnitude (outputs, 1), a direction (outputs, inputs) and a bias."""
    inputs, outputs = size(arguments, "inputs"), size(arguments, "outputs")
    return Declared(
        parameters={"linear.bias": (outputs,), MAGNITUDE: (outputs, 1), DIRECTION: (outputs, inputs)},
        inputs=inputs,
        outputs=outputs,
        cuts={DIRECTION: (0, 1)},
    )

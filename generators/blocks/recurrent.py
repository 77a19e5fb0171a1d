"""LSTM and GRU along a sequence, of one or two layers, in one direction or both."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, size
from generators.chances import equally, weighted
from generators.sizes import widths

WEIGHT = 2
GATES = {"LSTM": 4, "GRU": 3}


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """The cell, its widths, and how the layers are put together."""
    return st.fixed_dictionaries(
        {
            "cell": equally("LSTM", "GRU"),
            "inputs": widths(unit=unit),
            "hidden": equally(4, 6, 8, 3),
            "layers": equally(1, 2),
            "both": weighted((2, False), (1, True)),
            "bias": weighted((2, True), (1, False)),
        }
    )


def declared(arguments: Arguments) -> Declared:
    """Two matrices, and two biases, for every layer and direction; the gates are rows."""
    inputs, hidden = size(arguments, "inputs"), size(arguments, "hidden")
    directions = ("", "_reverse") if arguments["both"] else ("",)
    rows = GATES[str(arguments["cell"])] * hidden
    parameters: dict[str, tuple[int, ...]] = {}
    for layer in range(size(arguments, "layers")):
        for direction in directions:
            end = f"_l{layer}{direction}"
            parameters[f"cells.weight_ih{end}"] = (rows, inputs if not layer else hidden * len(directions))
            parameters[f"cells.weight_hh{end}"] = (rows, hidden)
            if arguments["bias"]:
                parameters |= {f"cells.bias_ih{end}": (rows,), f"cells.bias_hh{end}": (rows,)}
    return Declared(parameters=parameters, inputs=inputs, outputs=hidden * len(directions), positions=True)

"""The gated feed-forward layer of Llama: `down(silu(gate(x)) * up(x))`."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, linear, size
from generators.sizes import widths

WEIGHT = 2


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """Widths; `packed` has gate and up in one matrix, as serving code does."""
    return st.fixed_dictionaries(
        {
            "width": widths(unit=unit),
            "hidden": widths(unit=unit),
            "packed": st.booleans(),
            "bias": st.booleans(),
        }
    )


def declared(arguments: Arguments) -> Declared:
    """Two or three matrices, which tensor parallelism cuts along either dim."""
    width, hidden = size(arguments, "width"), size(arguments, "hidden")
    outputs = {"gate_up": 2 * hidden} if arguments["packed"] else {"gate": hidden, "up": hidden}
    parameters: dict[str, tuple[int, ...]] = {}
    for name, rows, columns in (*((n, o, width) for n, o in outputs.items()), ("down", width, hidden)):
        parameters |= linear(name, rows, columns, bias=arguments["bias"] is True)
    cuts = {name: (0, 1) for name, shape in parameters.items() if len(shape) > 1}
    return Declared(parameters=parameters, inputs=width, outputs=width, cuts=cuts)

"""A mixture of experts: every row goes to the `top` experts that a router prefers, and theirs are weighted.

`dispatch` says how: `dense` runs every expert on every row and weights most results by 0; `scatter` moves
rows to the experts' slots, of which each has `capacity`, and drops the rows that find none (Switch, GShard).
Rows then compete for slots.
"""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, linear, size
from generators.chances import equally, weighted
from generators.sizes import widths

WEIGHT = 2


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """A number of experts that `unit` usually divides, the rows' width, and the experts' own."""
    return st.fixed_dictionaries(
        {
            "width": widths(unit=unit),
            "hidden": equally(8, 4, 5),
            "experts": weighted((2, 2 * unit), (1, 4), (1, 3)),
            "top": equally(1, 2),
            "dispatch": equally("dense", "scatter"),
            "capacity": equally(4, 1, 8),
        }
    )


def declared(arguments: Arguments) -> Declared:
    """A router, and two matrices for each expert, cut by experts or by the experts' width."""
    width, hidden, experts = (size(arguments, name) for name in ("width", "hidden", "experts"))
    matrices = {"rising": (experts, width, hidden), "falling": (experts, hidden, width)}
    return Declared(
        parameters={**matrices, **linear("router", experts, width)},
        inputs=width,
        outputs=width,
        rowwise=arguments["dispatch"] == "dense",
        cuts={"rising": (0, 2), "falling": (0, 1)},
    )

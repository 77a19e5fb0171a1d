"""Rotary position embeddings: pairs of columns turned by angles that grow with the position (RoFormer).

`form` says how: `real` multiplies by cosines and sines and adds a half that was turned (GPT-NeoX, Llama in
transformers), `complex` multiplies neighbouring columns as complex numbers (Llama as Meta released it). The
angles are a buffer that the `state_dict` leaves out.
"""

import functools
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, size
from generators.chances import equally, weighted

if TYPE_CHECKING:
    from difftest.cases.layer import Parameters

WEIGHT = 2


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """The number of heads is usually a multiple of `unit`, so that an axis can cut it."""
    heads = weighted((2, 2 * unit), (1, 3), (1, 1))
    return st.fixed_dictionaries(
        {
            "form": equally("real", "complex"),
            "heads": heads,
            "head_dim": equally(4, 2, 8),
            "positions": equally(16, 24),
            "base": equally(10000, 500),
        }
    )


def declared(arguments: Arguments) -> Declared:
    """A table of cosines and one of sines, or one of both, for every position and pair of columns."""
    positions, half = size(arguments, "positions"), size(arguments, "head_dim") // 2
    width = size(arguments, "heads") * size(arguments, "head_dim")
    tables: Parameters = {"turns": (positions, half, 2)}
    if arguments["form"] == "real":
        tables = {"cosines": (positions, 2 * half), "sines": (positions, 2 * half)}
    return Declared(parameters={}, inputs=width, outputs=width, held_buffers=tables, positions=True)

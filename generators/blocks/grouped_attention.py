"""Grouped-query attention by torch's own function: several query heads share a key head."""

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
    """A number of key heads that `unit` usually divides, and up to four query heads for each."""
    return st.fixed_dictionaries(
        {
            "width": widths(unit=unit),
            "key_heads": weighted((2, unit), (1, 1), (1, 3)),
            "group": equally(2, 1, 4),
            "head_dim": equally(4, 8, 3),
            "causal": st.booleans(),
        }
    )


def declared(arguments: Arguments) -> Declared:
    """Four projections: those of queries, keys and values are cut by heads, the last by its inputs."""
    width, head_dim = size(arguments, "width"), size(arguments, "head_dim")
    keys = size(arguments, "key_heads") * head_dim
    queries = keys * size(arguments, "group")
    projections = {"q": (queries, width), "k": (keys, width), "v": (keys, width), "o": (width, queries)}
    parameters = {name: shape for key, of in projections.items() for name, shape in linear(key, *of).items()}
    return Declared(
        parameters=parameters, inputs=width, outputs=width, positions=True, cuts={"o.weight": (0, 1)}
    )

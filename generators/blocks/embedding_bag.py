"""Bags of embeddings with offsets, as in recommendation models: sums, means or maxima of a table's rows.

Every row of ids is cut into as many bags as it has ids; some have several, and some none.
"""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, size
from generators.chances import equally
from generators.sizes import vocabularies, widths

WEIGHT = 2


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """A table, and how a bag is summed up; `weighted` gives every id of a sum a weight of its own."""
    return st.fixed_dictionaries(
        {
            "vocabulary": vocabularies(unit=unit),
            "width": widths(unit=unit),
            "mode": equally("sum", "mean", "max", "weighted"),
        }
    )


def declared(arguments: Arguments) -> Declared:
    """The table."""
    vocabulary, width = size(arguments, "vocabulary"), size(arguments, "width")
    return Declared(
        parameters={"bags.weight": (vocabulary, width)},
        inputs=width,
        outputs=width,
        vocabulary=vocabulary,
        positions=True,
        cuts={"bags.weight": (0, 1)},
    )

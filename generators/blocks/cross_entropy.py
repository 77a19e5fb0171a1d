"""Torch's cross entropy of a table of logits, with label smoothing, class weights and ignored targets.

The block takes ids: each has its row of logits, and a target that follows from it. Its outputs are losses:
one for every position, or with a `reduction` the same for all, in which rows influence each other.
"""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, size
from generators.chances import equally, weighted
from generators.sizes import vocabularies

WEIGHT = 2


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """Classes, and the options of the loss; with `ignored` the targets of one class do not count."""
    return st.fixed_dictionaries(
        {
            "vocabulary": vocabularies(unit=unit),
            "classes": weighted((2, 4 * unit), (1, 5), (1, 3)),
            "smoothing": equally(0.0, 0.125, 0.5),
            "weighted": st.booleans(),
            "ignored": st.booleans(),
            "reduction": equally("none", "mean", "sum"),
        }
    )


def declared(arguments: Arguments) -> Declared:
    """The table, and a buffer with the classes' weights."""
    vocabulary, classes = size(arguments, "vocabulary"), size(arguments, "classes")
    return Declared(
        parameters={"logits.weight": (vocabulary, classes)},
        inputs=1,
        outputs=1,
        held_buffers={"weights": (classes,)} if arguments["weighted"] else {},
        vocabulary=vocabulary,
        positions=True,
        rowwise=arguments["reduction"] == "none",
        cuts={"logits.weight": (0, 1)},
    )

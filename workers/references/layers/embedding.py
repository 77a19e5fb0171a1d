"""The embedding: the row of a table for each id."""

from difftest.cases.layers.embedding import Embedding
from workers.references.layers import Array, Given, complete

lacks = complete


def computed(_layer: Embedding, inputs: Array, given: Given) -> Array:
    """(batch, sequence) ids to (batch, sequence, width)."""
    return given.own("weight")[inputs]

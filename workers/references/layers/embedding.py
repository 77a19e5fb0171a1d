"""The embedding: the row of a table for each id."""

from difftest.cases.layers.embedding import Embedding
from workers.references.layers import Array, Context, complete

lacks = complete


def computed(_layer: Embedding, inputs: Array, context: Context) -> Array:
    """(batch, sequence) ids to (batch, sequence, width)."""
    return context.own("weight")[inputs]

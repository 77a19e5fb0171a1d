"""Dropout (Srivastava et al., 2014) by the mask that is fed, whose other values keep the mean."""

from difftest.cases.layers.dropout import Dropout
from workers.references.layers import Array, Context, complete

lacks = complete


def computed(_layer: Dropout, inputs: Array, context: Context) -> Array:
    """The product with the mask of its path."""
    return inputs * context.extras[f"mask {context.path}"]

"""Dropout (Srivastava et al., 2014) by the mask that is fed, whose other values keep the mean."""

from difftest.cases.layers.dropout import Dropout
from workers.references.layers import Array, Given, complete

lacks = complete


def computed(_layer: Dropout, inputs: Array, given: Given) -> Array:
    """The product with the mask of its path."""
    return inputs * given.extras[f"mask {given.path}"]

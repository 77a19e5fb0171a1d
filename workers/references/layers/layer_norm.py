"""Layer normalization (Ba, Kiros and Hinton, 2016)."""

from difftest.cases.layers.layer_norm import LayerNorm
from workers.references.layers import Array, Given, complete

EPSILON = 1e-5
"""torch's documented default."""

lacks = complete


def computed(_layer: LayerNorm, inputs: Array, given: Given) -> Array:
    """Over the last dim, by the variance that divides by the number of columns."""
    centred = inputs - inputs.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    normal = centred / given.numpy.sqrt(variance + EPSILON)
    return normal * given.own("weight") + given.own("bias")

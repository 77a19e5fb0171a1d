"""Normalization by the root mean square (Zhang and Sennrich, 2019)."""

from difftest.cases.layers.rms_norm import RMSNorm
from workers.references.layers import Array, Context, complete

lacks = complete


def computed(layer: RMSNorm, inputs: Array, context: Context) -> Array:
    """Over the last dim; the epsilon is the one that the layer is given."""
    epsilon = layer.of_torch().options["eps"]
    mean = (inputs**2).mean(-1, keepdims=True)
    return inputs / context.numpy.sqrt(mean + epsilon) * context.own("weight")

"""Activation functions (gelu: Hendrycks and Gimpel, 2016; silu: Elfwing et al., 2017)."""

import math

from difftest.cases.layers.activation import Activation
from workers.references.layers import Array, Context, complete, sigmoid
from workers.references.operators.special import tanh

lacks = complete


def computed(layer: Activation, inputs: Array, context: Context) -> Array:
    """Relu has the derivative 0 at 0."""
    np = context.numpy
    match layer.function:
        case "relu":
            return np.where(inputs > 0, inputs, 0.0)
        case "gelu":
            return inputs * (1 + context.erf(inputs / math.sqrt(2))) / 2
        case "silu":
            return inputs * sigmoid(inputs, context)
        case "tanh":
            return tanh(np, inputs)

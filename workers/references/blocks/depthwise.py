"""A depthwise convolution that looks back, and a pointwise one (Howard et al., 2017)."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Context, projected, sigmoid


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """Every channel has `multiplier` filters, whose last weight is that of the position itself."""
    np, kernel, length = context.numpy, arguments["kernel"], inputs.shape[1]
    channels = np.repeat(inputs, arguments["multiplier"], axis=-1)
    padded = np.pad(channels, ((0, 0), (kernel - 1, 0), (0, 0)))
    weight = context.own("depthwise.weight")[:, 0]
    filtered = sum(padded[:, at : at + length] * weight[:, at] for at in range(kernel))
    filtered = filtered + context.own("depthwise.bias")
    return projected(filtered * sigmoid(filtered, context), context.own("pointwise.weight"))

"""A convolution over images, batch normalization, ReLU and pooling (He et al., 2016)."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Context, normalized


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """Images come and go in rows; pooling is over squares of two by two, or over all."""
    np, side, channels = context.numpy, arguments["side"], arguments["channels"]
    images = inputs.reshape(-1, channels, side, side)
    has_norm = arguments["norm"] != "none"
    filtered = convolved(images, context.own("conv.weight"), context)
    if has_norm:
        weight, bias = context.own("norm.weight")[:, None, None], context.own("norm.bias")[:, None, None]
        filtered = normalized(filtered, (0, 2, 3), context) * weight + bias
    else:
        filtered = filtered + context.own("conv.bias")[:, None, None]
    active = np.where(filtered > 0, filtered, 0.0)
    if arguments["pool"] == "adaptive":
        return active.mean((2, 3))
    squares = active.reshape(*active.shape[:2], side // 2, 2, side // 2, 2)
    pooled = squares.max((3, 5)) if arguments["pool"] == "max" else squares.mean((3, 5))
    return pooled.reshape(len(images), -1)


def convolved(images: Array, kernel: Array, context: Context) -> Array:
    """(batch, channels, side, side) to the same with the kernel's filters: a sum over shifted images."""
    np, size, (height, width) = context.numpy, kernel.shape[-1], images.shape[2:]
    half = size // 2
    padded = np.pad(images, ((0, 0), (0, 0), (half, half), (half, half)))
    return sum(
        np.einsum("bchw,fc->bfhw", padded[:, :, y : y + height, x : x + width], kernel[:, :, y, x])
        for y in range(size)
        for x in range(size)
    )

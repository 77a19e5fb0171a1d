"""A convolution over images, batch normalization, ReLU and pooling (He et al., 2016)."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Given, normalized


def computed(arguments: Mapping[str, Any], inputs: Array, given: Given) -> Array:
    """Images come and go in rows; pooling is over squares of two by two, or over all."""
    np, side, channels = given.numpy, arguments["side"], arguments["channels"]
    images = inputs.reshape(-1, channels, side, side)
    has_norm = arguments["norm"] != "none"
    filtered = convolved(images, given.own("conv.weight"), given)
    if has_norm:
        weight, bias = given.own("norm.weight")[:, None, None], given.own("norm.bias")[:, None, None]
        filtered = normalized(filtered, (0, 2, 3), given) * weight + bias
    else:
        filtered = filtered + given.own("conv.bias")[:, None, None]
    active = np.where(filtered > 0, filtered, 0.0)
    if arguments["pool"] == "adaptive":
        return active.mean((2, 3))
    squares = active.reshape(*active.shape[:2], side // 2, 2, side // 2, 2)
    pooled = squares.max((3, 5)) if arguments["pool"] == "max" else squares.mean((3, 5))
    return pooled.reshape(len(images), -1)


def convolved(images: Array, kernel: Array, given: Given) -> Array:
    """(batch, channels, side, side) to the same with the kernel's filters: a sum over shifted images."""
    np, size, (height, width) = given.numpy, kernel.shape[-1], images.shape[2:]
    half = size // 2
    padded = np.pad(images, ((0, 0), (0, 0), (half, half), (half, half)))
    return sum(
        np.einsum("bchw,fc->bfhw", padded[:, :, y : y + height, x : x + width], kernel[:, :, y, x])
        for y in range(size)
        for x in range(size)
    )

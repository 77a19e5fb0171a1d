"""One level of a UNet (Ronneberger et al., 2015), with group normalization (Wu and He, 2018)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from workers.references.blocks.convolution import convolved
from workers.references.layers import Array, Context, normalized, sigmoid


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """Pooled, convolved, normalized by groups and enlarged again; then joined with the images."""
    arrays, groups, side = context.numpy, arguments["groups"], arguments["side"]
    images = inputs.reshape(-1, 2 * groups, side, side)
    pooled = images.reshape(len(images), 2 * groups, side // 2, 2, side // 2, 2).mean((3, 5))
    inner = convolved(pooled, context.own("inner.weight"), context) + context.own("inner.bias")[:, None, None]
    inner = normalized(inner.reshape(len(images), groups, -1), (-1,), context).reshape(inner.shape)
    inner = inner * context.own("norm.weight")[:, None, None] + context.own("norm.bias")[:, None, None]
    inner = inner * sigmoid(inner, context)
    larger = _enlarging(side // 2, arguments["mode"])
    enlarged = arrays.einsum("yh,bchw,xw->bcyx", larger, inner, larger)
    both = arrays.concatenate([images, enlarged], axis=1)
    joined = (
        convolved(both, context.own("joined.weight"), context) + context.own("joined.bias")[:, None, None]
    )
    return joined.reshape(len(images), -1)


def _enlarging(size: int, mode: str) -> Array:
    """The matrix that makes `2 * size` values of `size`: of the nearest one, or between two.

    With `corners` the first and the last place stay where they are; otherwise the edges of pixels do.
    """
    places = np.arange(2 * size)
    matrix = np.zeros((2 * size, size))
    if mode == "nearest":
        matrix[places, places // 2] = 1.0
        return matrix
    at = places * (size - 1) / (2 * size - 1) if mode == "corners" else (places + 0.5) / 2 - 0.5
    at = np.clip(at, 0.0, size - 1)
    low = np.floor(at).astype(int)
    high = np.minimum(low + 1, size - 1)
    np.add.at(matrix, (places, low), 1 - (at - low))
    np.add.at(matrix, (places, high), at - low)
    return matrix

"""Batch normalization in training (Ioffe and Szegedy, 2015)."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Given

EPSILON = 1e-5
"""torch's documented default."""


def computed(arguments: Mapping[str, Any], inputs: Array, given: Given) -> Array:
    """Over rows, by the variance that divides by their number."""
    normal = normalized(inputs, (0,), given)
    return normal * given.own("norm.weight") + given.own("norm.bias") if arguments["affine"] else normal


def normalized(inputs: Array, axes: tuple[int, ...], given: Given) -> Array:
    """Mean 0 and variance 1 along `axes`."""
    centred = inputs - inputs.mean(axes, keepdims=True)
    return centred / given.numpy.sqrt((centred**2).mean(axes, keepdims=True) + EPSILON)

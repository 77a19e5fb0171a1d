"""Batch normalization in training (Ioffe and Szegedy, 2015)."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Given, normalized


def computed(arguments: Mapping[str, Any], inputs: Array, given: Given) -> Array:
    """Over rows, by the variance that divides by their number."""
    normal = normalized(inputs, (0,), given)
    return normal * given.own("norm.weight") + given.own("norm.bias") if arguments["affine"] else normal

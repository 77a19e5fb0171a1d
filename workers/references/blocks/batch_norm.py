"""Batch normalization in training (Ioffe and Szegedy, 2015)."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Context, normalized


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """Over rows, by the variance that divides by their number."""
    normal = normalized(inputs, (0,), context)
    return normal * context.own("norm.weight") + context.own("norm.bias") if arguments["affine"] else normal

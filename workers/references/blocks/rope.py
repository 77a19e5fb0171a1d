"""Rotary position embeddings (Su et al., 2021): pairs of columns are turned by angles of their position."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from workers.references.layers import Array, Context


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """`real` pairs column i with the one half a head later, `complex` neighbouring ones."""
    arrays, heads, width = context.numpy, arguments["heads"], arguments["head_dim"]
    batch, length, _ = inputs.shape
    rates = float(arguments["base"]) ** -(np.arange(0, width, 2) / width)
    angles = np.outer(np.arange(length), rates)[:, None]
    cosines, sines = np.cos(angles), np.sin(angles)
    columns = inputs.reshape(batch, length, heads, width)
    if arguments["form"] == "real":
        one, other = columns[..., : width // 2], columns[..., width // 2 :]
    else:
        one, other = columns[..., 0::2], columns[..., 1::2]
    turned = one * cosines - other * sines, other * cosines + one * sines
    if arguments["form"] == "real":
        return arrays.concatenate(turned, axis=-1).reshape(inputs.shape)
    return arrays.stack(turned, axis=-1).reshape(inputs.shape)

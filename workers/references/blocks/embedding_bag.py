"""Bags of embeddings: sums, means or maxima of rows of a table.

The bags of a row come in pairs, of which the first is empty and gives zeros.
"""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Context


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """Bag 2 i + 1 has the ids 2 i and 2 i + 1; the last of an odd number has one."""
    np, mode = context.numpy, arguments["mode"]
    rows = context.own("bags.weight")[inputs]
    if mode == "weighted":
        rows = rows * ((inputs % 5 + 1) / 4.0)[..., None]
    odd = inputs.shape[1] % 2
    pairs = rows[:, : inputs.shape[1] - odd]
    batch, length, width = pairs.shape
    pairs = pairs.reshape(batch, length // 2, 2, width)
    full = {"max": pairs.max(2), "mean": pairs.mean(2)}.get(mode, pairs.sum(2))
    bags = np.stack([np.zeros_like(full), full], axis=2).reshape(batch, length, width)
    return np.concatenate([bags, rows[:, length:]], axis=1)

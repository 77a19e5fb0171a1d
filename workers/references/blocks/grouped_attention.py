"""Grouped-query attention (Ainslie et al., 2023)."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Given, by_heads, mixed, projected


def computed(arguments: Mapping[str, Any], inputs: Array, given: Given) -> Array:
    """Every key head serves `group` query heads, which follow each other."""
    np, width, length = given.numpy, arguments["head_dim"], inputs.shape[1]
    query = by_heads(projected(inputs, given.own("q.weight")), width, 1, given)
    key = by_heads(projected(inputs, given.own("k.weight")), width, arguments["group"], given)
    value = by_heads(projected(inputs, given.own("v.weight")), width, arguments["group"], given)
    scores = query @ key.transpose(0, 1, 3, 2) / width**0.5
    later = np.arange(length)[None, :] > np.arange(length)[:, None]
    hidden = later if arguments["causal"] else None
    return projected(mixed(scores, hidden, value, given), given.own("o.weight"))

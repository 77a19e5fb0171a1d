"""Grouped-query attention (Ainslie et al., 2023)."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Context, by_heads, hidden_keys, mixed, projected


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """Every key head serves `group` query heads, which follow each other."""
    width, length = arguments["head_dim"], inputs.shape[1]
    query = by_heads(inputs, "q", width, 1, context)
    key = by_heads(inputs, "k", width, arguments["group"], context)
    value = by_heads(inputs, "v", width, arguments["group"], context)
    scores = query @ key.transpose(0, 1, 3, 2) / width**0.5
    hidden = hidden_keys(context, length, length, causal=arguments["causal"])
    return projected(mixed(scores, hidden, value, context), context.own("o.weight"))

"""Multi-head attention (Vaswani et al., 2017), with grouped queries (Ainslie et al., 2023)."""

from difftest.cases.layers.attention import Attention
from workers.references.layers import Array, Context, by_heads, complete, hidden_keys, mixed, projected

lacks = complete


def computed(layer: Attention, inputs: Array, context: Context) -> Array:
    """Scores over the root of a head's width; masks hide later positions and other segments."""
    width, length, group = layer.head_dim, inputs.shape[1], layer.heads // layer.kv_heads
    query = by_heads(inputs, "q", width, 1, context)
    key = by_heads(inputs, "k", width, group, context)
    value = by_heads(inputs, "v", width, group, context)
    scores = query @ key.transpose(0, 1, 3, 2) / width**0.5
    hidden = hidden_keys(context, length, length, causal=layer.causal, segments=layer.segments)
    return projected(mixed(scores, hidden, value, context), context.own("o.weight"))

"""Attention as flash kernels compute it (Dao et al., 2022): the same function as any attention's."""

from difftest.cases.layers.flash_attention import FlashAttention
from workers.references.layers import Array, Context, by_heads, complete, hidden_keys, mixed, projected

lacks = complete


def computed(layer: FlashAttention, inputs: Array, context: Context) -> Array:
    """Keys and values are the first positions'; a bias is added to scores that were scaled."""
    width, keys, group = layer.head_dim, layer.keys, layer.heads // layer.key_heads
    query = by_heads(inputs, "q", width, 1, context)
    key = by_heads(inputs[:, :keys], "k", width, group, context)
    value = by_heads(inputs[:, :keys], "v", width, group, context)
    scale = width**-0.5 if layer.scale is None else layer.scale
    scores = query @ key.transpose(0, 1, 3, 2) * scale
    if layer.bias:
        scores = scores + context.own("ab")
    hidden = hidden_keys(context, inputs.shape[1], keys, causal=layer.causal, segments=layer.segments)
    return projected(mixed(scores, hidden, value, context), context.own("o.weight"))

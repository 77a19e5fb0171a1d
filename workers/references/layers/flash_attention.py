"""Attention as flash kernels compute it (Dao et al., 2022): the same function as any attention's."""

from difftest.cases.layers.flash_attention import FlashAttention
from workers.references.layers import Array, Given, by_heads, complete, mixed, projected

lacks = complete


def computed(layer: FlashAttention, inputs: Array, given: Given) -> Array:
    """Keys and values are the first positions'; a bias is added to scores that were scaled."""
    np, width = given.numpy, layer.head_dim
    length, keys, group = inputs.shape[1], layer.keys, layer.heads // layer.key_heads
    query = by_heads(projected(inputs, given.own("q.weight")), width, 1, given)
    key = by_heads(projected(inputs[:, :keys], given.own("k.weight")), width, group, given)
    value = by_heads(projected(inputs[:, :keys], given.own("v.weight")), width, group, given)
    scale = width**-0.5 if layer.scale is None else layer.scale
    scores = query @ key.transpose(0, 1, 3, 2) * scale
    if layer.bias:
        scores = scores + given.own("ab")
    hidden = np.zeros((1, 1, length, keys), bool)
    if layer.causal:
        hidden = hidden | (np.arange(keys)[None, :] > np.arange(length)[:, None])
    if layer.segments:
        ids = given.extras["segments"]
        hidden = hidden | (ids[:, None, :, None] != ids[:, None, None, :keys])
    masked = layer.causal or layer.segments
    return projected(mixed(scores, hidden if masked else None, value, given), given.own("o.weight"))

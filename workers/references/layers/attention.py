"""Multi-head attention (Vaswani et al., 2017), with grouped queries (Ainslie et al., 2023)."""

from difftest.cases.layers.attention import Attention
from workers.references.layers import Array, Given, by_heads, complete, mixed, projected

lacks = complete


def computed(layer: Attention, inputs: Array, given: Given) -> Array:
    """Scores over the root of a head's width; masks hide later positions and other segments."""
    np, width, length = given.numpy, layer.head_dim, inputs.shape[1]
    group = layer.heads // layer.kv_heads
    query = by_heads(projected(inputs, given.own("q.weight")), width, 1, given)
    key = by_heads(projected(inputs, given.own("k.weight")), width, group, given)
    value = by_heads(projected(inputs, given.own("v.weight")), width, group, given)
    scores = query @ key.transpose(0, 1, 3, 2) / width**0.5
    hidden = np.zeros((1, 1, length, length), bool)
    if layer.causal:
        hidden = hidden | (np.arange(length)[None, :] > np.arange(length)[:, None])
    if layer.segments:
        ids = given.extras["segments"]
        hidden = hidden | (ids[:, None, :, None] != ids[:, None, None, :])
    masked = layer.causal or layer.segments
    return projected(mixed(scores, hidden if masked else None, value, given), given.own("o.weight"))

"""How attention is drawn."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.attention import Attention
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Shard
from generators.chances import sometimes, weighted
from generators.layers import Block, ByParameter, Cut, Layers, along_dim_0, whole
from generators.layers.layer_norm import norms
from generators.sizes import divisors, multiples


@functools.cache
@st.composite
def attentions(draw: st.DrawFn, *, width: int, unit: int = 1) -> Attention:
    """Attention with every division of `width` into heads, and of the heads among key and value heads."""
    heads = draw(multiples(divisors(width), unit))
    kv_heads = draw(multiples(divisors(heads), unit))
    causal, segments = draw(weighted((3, True), (2, False))), draw(sometimes(one_in=3))
    return Attention(width=width, heads=heads, kv_heads=kv_heads, causal=causal, segments=segments)


@functools.cache
@st.composite
def normed(draw: st.DrawFn, width: int, unit: int) -> Layers:
    """Usually residual behind a norm, as transformers have it."""
    attention = draw(attentions(width=width, unit=unit))
    residual = Residual(layers=(draw(norms(width=width)), attention))
    return draw(weighted((4, (residual,)), (1, (attention,))))


def placements(*, layer: Attention, size: int, cut: Cut) -> SearchStrategy[ByParameter]:
    """Usually Megatron's: heads apart, and the last projection cut by rows.

    Whole if the ranks do not share the heads evenly.
    """
    if layer.kv_heads % size:
        return st.just(whole(layer))
    return weighted((4, {**along_dim_0(layer), "o.weight": Shard(1)}), (1, whole(layer)))


BLOCKS: tuple[Block, ...] = (Block(order=4, weight=4, strategy=normed, needs_sequence=True),)

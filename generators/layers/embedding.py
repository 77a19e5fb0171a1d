"""How embeddings are drawn; they stand first, so only models of token ids have one."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.embedding import Embedding
from difftest.cases.layout import Shard
from generators.layers import Block, ByParameter, Cut, along_dim_0, whole
from generators.sizes import vocabularies

BLOCKS: tuple[Block, ...] = ()


@functools.cache
@st.composite
def embeddings(draw: st.DrawFn, *, width: int, unit: int = 1) -> Embedding:
    """Of any vocabulary."""
    return Embedding(vocabulary=draw(vocabularies(unit=unit)), width=width)


def placements(*, layer: Embedding, size: int, cut: Cut) -> SearchStrategy[ByParameter]:
    """Cut by ids, cut by columns, or whole."""
    return st.sampled_from((along_dim_0(layer), {"weight": Shard(1)}, whole(layer)))

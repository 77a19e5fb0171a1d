"""How flash attention is drawn; only the path of that name has it.

Lengths are the kernels' blocks and their boundaries. Where queries and keys differ in number there are no
segments: a query without a key of its segment has no meaning that the kernels share. A bias goes with a scale
that is a power of two, so that a kernel that adds it before scaling can scale the queries instead, exactly.
What a case costs are attention's scores; `MOST_SCORES` bounds them.
"""

import functools
import math

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layer import Layer
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layout import Mesh
from difftest.cases.model import Model
from generators.chances import mixed, sometimes, weighted
from generators.layers import Block, kept_whole

TENSOR = "tp"
MOST_INNER = 512
"""The greatest `heads * head_dim`; half of it where the width is the greatest."""
MOST_BIAS = 65_536
MOST_HEADS = 4
"""Unless `tp` has more ranks."""

HEAD_DIMS = ((4, 128), (3, 16), (2, 64), (1, 8), (1, 256))
LENGTHS = (
    (4, (128, 128)),
    (5, (256, 256)),
    (2, (256, 128)),
    (1, (512, 512)),
    (1, (512, 256)),
    (1, (384, 384)),
)
"""Of queries and of keys; 384 is a multiple of the lanes, not of every block."""
FEWEST_ROWS = 2
MOST_SCORES = 2**18
"""The greatest number of flash attention's scores in a run, unless each rank's one row has more.

These are `steps * rows * heads * length * keys` of every layer.

They are what the oracle spends its time on, and to be sure it runs more than a hundred times within a run's
deadline.
"""

SCALES = (0.125, 0.0625, 0.25)

BLOCKS: tuple[Block, ...] = ()


@functools.cache
@st.composite
def attentions(draw: st.DrawFn, *, mesh: Mesh) -> FlashAttention:
    """Attention that the mesh can cut, with scores for at least one row on each data rank."""
    unit, rows = mesh.size(TENSOR), mesh.world_size // mesh.size(TENSOR)
    heads = draw(
        st.sampled_from(
            sorted({unit, 2 * unit if 2 * unit <= MOST_HEADS else unit, *((1, 3) if unit == 1 else ())})
        )
    )
    length, keys = draw(_lengths(rows * heads))
    bias = draw(sometimes(one_in=3)) if heads * length * keys <= MOST_BIAS else False
    head_dim = draw(weighted(*((w, dim) for w, dim in HEAD_DIMS if heads * dim <= MOST_INNER)))
    return FlashAttention(
        width=draw(st.sampled_from((8, 4) if 2 * heads * head_dim > MOST_INNER else (8, 4, 16))),
        heads=heads,
        head_dim=head_dim,
        length=length,
        keys=keys,
        causal=draw(st.booleans()),
        segments=draw(weighted((3, True), (1, False))) if keys == length else False,
        bias=bias,
        scale=draw(st.sampled_from(SCALES) if bias else mixed((2, st.none()), (1, st.sampled_from(SCALES)))),
    )


@functools.cache
def _lengths(rows: int) -> SearchStrategy[tuple[int, int]]:
    """Lengths of queries and keys, as long as `rows` rows over all heads allow.

    The shortest is always among them, and the longest for the fewest rows.
    """
    allowed = [
        (weight, pair)
        for weight, pair in LENGTHS
        if rows * math.prod(pair) <= MOST_SCORES or rows <= FEWEST_ROWS
    ]
    return weighted(*(allowed or LENGTHS[:1]))


def followers(first: FlashAttention) -> SearchStrategy[FlashAttention]:
    """A second block's attention: of the same heads over the same sequence, without a bias."""
    return st.builds(
        FlashAttention,
        width=st.just(first.width),
        heads=st.just(first.heads),
        head_dim=st.just(first.head_dim),
        length=st.just(first.length),
        keys=st.just(first.keys),
        causal=st.booleans(),
        segments=st.just(first.segments),
    )


def draw_shared_heads(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Model:
    """`model`, in a quarter of those with flash attention with shared heads of keys and values.

    The ranks share these heads evenly.
    """
    fewer = tuple(_with_key_heads(layer, mesh) for layer in model.layers)
    if fewer == model.layers or not draw(sometimes(one_in=4)):
        return model
    return msgspec.structs.replace(model, layers=fewer)


def _with_key_heads(layer: Layer, mesh: Mesh) -> Layer:
    """The layer with as few heads of keys as `tp` has ranks, if that is fewer than its heads of queries."""
    if layer.held is not None:
        return layer.holding(tuple(_with_key_heads(inner, mesh) for inner in layer.held))
    if not isinstance(layer, FlashAttention):
        return layer
    least = mesh.size(TENSOR)
    possible = (
        least < layer.heads and layer.heads % least == 0 and least * layer.head_dim % mesh.world_size == 0
    )
    return msgspec.structs.replace(layer, kv_heads=least) if possible else layer


# the path `flash_attention` cuts the heads of all blocks or of none
placements = kept_whole

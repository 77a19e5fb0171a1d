"""Flash attention: the batch cut over data axes, the heads over `tp`, or both, in models whose blocks ask for each side's flash kernel.

Lengths are the kernels' blocks and their boundaries. Where queries and keys differ in number there are no segments: a query without a key
of its segment has no meaning that the kernels share. A bias goes with a scale that is a power of two, so that whoever adds it before
scaling can scale the queries instead, exactly. What a case costs are attention's scores; `training.MOST_SCORES` bounds them.
"""

import math

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from generators import layouts as places
from generators import models as shapes
from generators import training
from generators.chances import mixed, sometimes, weighted
from generators.layouts import ByParameter, Placement
from generators.models import Purpose
from generators.training import MOST_SCORES

purposes = training.purposes

AXES = ((3, ("dp",)), (2, ("dp_shard",)), (2, ("tp",)), (3, ("dp", "tp")), (1, ("dp_shard", "tp")))
TENSOR = "tp"

MOST_PARAMETERS = 100_000
MOST_INNER = 512
"""The greatest `heads * head_dim`; half of it where the width is the greatest."""
MOST_BIAS = 65_536
MOST_HEADS = 4
"""Unless `tp` has more ranks."""
MOST_LEARNING_RANKS = 2
"""A long run on more of them takes too long with the kernels interpreted."""

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
SCALES = (0.125, 0.0625, 0.25)


def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """A data axis, `tp`, or one of each."""
    return mixed(
        *((weight, places.meshes(axes=axes, max_world_size=max_world_size)) for weight, axes in AXES)
    )


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:
    """Models with one or two blocks of flash attention; nothing in it is exact, so exact cases have none."""
    if purpose == "exact":
        return shapes.exact_models()
    if purpose == "learnable":
        learning = _learnable_models(mesh=mesh)
        return (
            learning
            if mesh.world_size <= MOST_LEARNING_RANKS
            else shapes.learnable_models(unit=_size(mesh, TENSOR))
        )
    return _models(mesh=mesh)


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """The batch cut over the data axes, the parameters too over `dp_shard`; over `tp` usually the heads."""
    by_axis: list[ByParameter] = []
    for name in mesh.names:
        if name == TENSOR:
            by_axis.append(draw(_over_tensor(model=model, size=_size(mesh, TENSOR))))
        else:
            by_axis.append(places.same(model, Replicate() if name == "dp" else Shard(0)))
    if mesh.names == ("dp_shard", TENSOR):
        by_axis[0] = {
            name: Replicate() if over_tp == Shard(0) else Shard(0) for name, over_tp in by_axis[1].items()
        }
    batch: list[Placement] = [Replicate() if name == TENSOR else Shard(0) for name in mesh.names]
    return places.zipped(mesh=mesh, batch=batch, parameters=by_axis)


@st.composite
def _over_tensor(draw: st.DrawFn, *, model: Model, size: int) -> ByParameter:
    """Megatron's pattern, with queries, keys, values and bias cut by heads in all blocks or in none."""
    placed = dict(draw(places.megatron_placements(model=model, size=size)))
    if draw(weighted((4, True), (1, False))):
        for path, layer in walk(model.layers):
            if isinstance(layer, FlashAttention) and layer.heads % size == 0:
                own = {f"{path}.{name}.weight": Shard(0) for name in "qkv"} | {
                    f"{path}.o.weight": Shard(1),
                    f"{path}.ab": Shard(0),
                }
                placed |= {name: placement for name, placement in own.items() if name in placed}
    return placed


@st.composite
def _models(draw: st.DrawFn, *, mesh: Mesh) -> Model:
    attention = draw(_attentions(mesh=mesh))
    width = attention.width
    blocks: list[Layer] = [Residual(layers=(*draw(_norms(width=width)), attention))]
    if draw(sometimes(one_in=3)):
        blocks.append(draw(shapes.mlps(width=width, unit=_size(mesh, TENSOR))))
    scores = attention.heads * attention.length * attention.keys * mesh.world_size // _size(mesh, TENSOR)
    if draw(sometimes(one_in=3)) and 2 * scores <= MOST_SCORES:
        blocks.append(Residual(layers=(*draw(_norms(width=width)), draw(_followers(attention)))))
    stem = draw(mixed((3, _linear_stems(width)), (1, st.just(Embedding(vocabulary=16, width=width)))))
    head = Linear(inputs=width, outputs=draw(st.sampled_from((4, 3, 8))), bias=draw(st.booleans()))
    return Model(layers=(stem, *blocks, head), sequence=attention.length)


@st.composite
def _learnable_models(draw: st.DrawFn, *, mesh: Mesh) -> Model:
    """The smallest: one block of one head a rank, nearly always with segments, between stem and head."""
    attention = FlashAttention(
        width=8,
        heads=_size(mesh, TENSOR),
        head_dim=8,
        length=128,
        keys=128,
        segments=draw(weighted((4, True), (1, False))),
    )
    stem, head = (
        Linear(inputs=draw(st.sampled_from((8, 5))), outputs=8),
        Linear(inputs=8, outputs=draw(st.sampled_from((4, 3)))),
    )
    return Model(layers=(stem, Residual(layers=(attention,)), head), sequence=128)


@st.composite
def _attentions(draw: st.DrawFn, *, mesh: Mesh) -> FlashAttention:
    """Attention that the mesh can cut, with scores for at least one row a data rank."""
    unit, rows = _size(mesh, TENSOR), mesh.world_size // _size(mesh, TENSOR)
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


def _lengths(rows: int) -> SearchStrategy[tuple[int, int]]:
    """Of queries and keys, as long as so many rows of so many heads bear; always the shortest, and the longest for the fewest."""
    allowed = [
        (weight, pair)
        for weight, pair in LENGTHS
        if rows * math.prod(pair) <= MOST_SCORES or rows <= FEWEST_ROWS
    ]
    return weighted(*(allowed or LENGTHS[:1]))


def _followers(first: FlashAttention) -> SearchStrategy[FlashAttention]:
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


def _linear_stems(width: int) -> SearchStrategy[Layer]:
    return st.sampled_from((5, 3, 8)).map(lambda inputs: Linear(inputs=inputs, outputs=width))


def _norms(*, width: int) -> SearchStrategy[tuple[Layer, ...]]:
    kinds: tuple[tuple[Layer, ...], ...] = ((RMSNorm(width=width),), (LayerNorm(width=width),), ())
    return st.sampled_from(kinds)


def _size(mesh: Mesh, axis: str) -> int:
    """The size of an axis; 1 when the mesh has none of that name."""
    return dict(mesh.axes).get(axis, 1)

"""Flash attention: the batch sharded over data axes, the heads over `tp`, or both.

The attention itself is drawn by `generators.layers.flash_attention`.
"""

import functools

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
from generators.layers import ByParameter, Placement
from generators.layers.flash_attention import MOST_SCORES, TENSOR, attentions, followers
from generators.layers.residual import mlps
from generators.models import Purpose
from generators.paths import as_drawn, drawn_alone

DEFAULT = True
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone
completed = as_drawn
purposes = training.purposes

AXES = ((3, ("dp",)), (2, ("dp_shard",)), (2, ("tp",)), (3, ("dp", "tp")), (1, ("dp_shard", "tp")))

MOST_PARAMETERS = 100_000
MOST_LEARNING_RANKS = 2
"""A long run on more of them takes too long with the kernels interpreted."""


@functools.cache
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
            else shapes.learnable_models(unit=mesh.size(TENSOR))
        )
    return _models(mesh=mesh)


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """The batch cut over the data axes, the parameters too over `dp_shard`; over `tp` usually the heads."""
    by_axis: list[ByParameter] = []
    for name in mesh.names:
        if name == TENSOR:
            by_axis.append(draw(_over_tensor(model=model, size=mesh.size(TENSOR))))
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


@functools.cache
@st.composite
def _models(draw: st.DrawFn, *, mesh: Mesh) -> Model:
    attention = draw(attentions(mesh=mesh))
    width = attention.width
    blocks: list[Layer] = [Residual(layers=(*draw(_norms(width=width)), attention))]
    if draw(sometimes(one_in=3)):
        blocks.append(draw(mlps(width=width, unit=mesh.size(TENSOR))))
    scores = attention.heads * attention.length * attention.keys * mesh.world_size // mesh.size(TENSOR)
    if draw(sometimes(one_in=3)) and 2 * scores <= MOST_SCORES:
        blocks.append(Residual(layers=(*draw(_norms(width=width)), draw(followers(attention)))))
    stem = draw(mixed((3, _linear_stems(width)), (1, st.just(Embedding(vocabulary=16, width=width)))))
    head = Linear(inputs=width, outputs=draw(st.sampled_from((4, 3, 8))), bias=draw(st.booleans()))
    return Model(layers=(stem, *blocks, head), sequence=attention.length)


@functools.cache
@st.composite
def _learnable_models(draw: st.DrawFn, *, mesh: Mesh) -> Model:
    """The smallest: one block of one head a rank, nearly always with segments, between stem and head."""
    attention = FlashAttention(
        width=8,
        heads=mesh.size(TENSOR),
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


@functools.cache
def _linear_stems(width: int) -> SearchStrategy[Layer]:
    return st.sampled_from((5, 3, 8)).map(lambda inputs: Linear(inputs=inputs, outputs=width))


@functools.cache
def _norms(*, width: int) -> SearchStrategy[tuple[Layer, ...]]:
    kinds: tuple[tuple[Layer, ...], ...] = ((RMSNorm(width=width),), (LayerNorm(width=width),), ())
    return st.sampled_from(kinds)

"""Experts: the ranks of `ep` have some of them each, and rows travel there and back.

`ep` is alone, behind `dp_shard`, which cuts the experts' matrices, before `tp`, which cuts their hidden
width, or between both. Everything else is whole or sharded over `ep`.
"""

import functools
from typing import TYPE_CHECKING

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from difftest.cases.options import Replication, Start
from difftest.cases.routed import EXPERTS, SHARDS, TENSOR, routed
from difftest.cases.wrapping import Dispatch
from generators import layouts as places
from generators import training
from generators.chances import equally, mixed, sometimes, weighted
from generators.layers.routed_experts import KERNEL, drawn
from generators.models import Purpose
from generators.paths import drawn_alone

if TYPE_CHECKING:
    from difftest.cases.layer import Layer
    from generators.layers import ByParameter, Placement

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone

AXES = ((6, (EXPERTS,)), (3, (SHARDS, EXPERTS)), (2, (EXPERTS, TENSOR)), (1, (SHARDS, EXPERTS, TENSOR)))
MOST_ROUTED = 32
"""Rows, over all positions: the oracle sends one after another."""


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """`ep` with at least two ranks, alone or with one or two axes."""
    places.require_several("experts", max_world_size)
    fitting = [
        (
            weight,
            places.meshes(axes=axes, max_world_size=max_world_size).filter(
                lambda mesh: mesh.size(EXPERTS) > 1
            ),
        )
        for weight, axes in AXES
        if max_world_size >= 2 ** len(axes)
    ]
    return mixed(*fitting)


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:
    """Mostly ordinary, in a third exact: then no way of rows may change a bit. Nothing is learnable."""
    return weighted((2, "ordinary"), (1, "exact")) if training.fits_exact(mesh) else st.just("ordinary")


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:
    """One or two layers of experts, in residual blocks or between others."""
    unit, shards, tensor = (mesh.size(axis) for axis in (EXPERTS, SHARDS, TENSOR))
    if purpose == "exact":
        return _exact_models(unit=unit, shards=shards, tensor=tensor)
    return _models(unit=unit, shards=shards, tensor=tensor)


@functools.cache
@st.composite
def _exact_models(draw: st.DrawFn, *, unit: int, shards: int, tensor: int) -> Model:
    """Experts alone, or one Linear layer before them: sums of small whole numbers."""
    layers: list[Layer] = [draw(drawn(width=4, unit=unit, cut=max(1, shards * tensor // 4), exact=True))]
    if draw(st.booleans()):
        layers.insert(0, Linear(inputs=2, outputs=4, bias=draw(st.booleans())))
    return Model(layers=tuple(layers))


@functools.cache
@st.composite
def _models(draw: st.DrawFn, *, unit: int, shards: int, tensor: int) -> Model:
    width = draw(equally(KERNEL, KERNEL, 2 * KERNEL, 4, 6))
    width = width if width % shards == 0 else KERNEL * shards
    sequence = draw(weighted((2, 0), (1, 2), (1, 3)))
    stems: tuple[Layer, ...] = (Linear(inputs=draw(st.sampled_from((3, 5, 8))), outputs=width),)
    if sequence:
        stems = (*stems, Embedding(vocabulary=draw(st.sampled_from((8, 12, 13))), width=width))
    layers = [draw(st.sampled_from(stems))]
    for _ in range(draw(weighted((2, 1), (1, 2)))):
        layers.extend(draw(_blocks(width=width, unit=unit, cut=shards * tensor)))
    head = Linear(inputs=width, outputs=draw(st.sampled_from((4, 3, 8))), bias=draw(st.booleans()))
    return Model(layers=(*layers, head), sequence=sequence)


@st.composite
def _blocks(draw: st.DrawFn, *, width: int, unit: int, cut: int) -> "tuple[Layer, ...]":
    experts = draw(drawn(width=width, unit=unit, cut=cut, exact=False))
    norms: tuple[Layer, ...] = (RMSNorm(width=width), LayerNorm(width=width))
    if draw(weighted((2, True), (1, False))):
        return (Residual(layers=(draw(st.sampled_from(norms)), experts)),)
    return (experts, Activation(function="tanh")) if draw(st.booleans()) else (experts,)


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """Experts apart over `ep`; all else sharded over it where `dp_shard` replicates it, else perhaps."""
    names = mesh.names
    own = routed(model)
    dense: Placement = Shard(0) if SHARDS in names or draw(st.booleans()) else Replicate()
    even = all(shape[0] % mesh.world_size == 0 for name, shape in model.parameters().items() if name in own)
    cut: Placement = Shard(0) if even and draw(sometimes(one_in=3)) else Shard(1)
    by_axis: dict[str, ByParameter] = {
        SHARDS: {name: cut if name in own else Replicate() for name in model.parameters()},
        EXPERTS: {name: Shard(0) if name in own else dense for name in model.parameters()},
        TENSOR: {name: Shard(own[name]) if name in own else Replicate() for name in model.parameters()},
    }
    batch: list[Placement] = [Replicate() if name == TENSOR else Shard(0) for name in names]
    return places.zipped(mesh=mesh, batch=batch, parameters=[by_axis[name] for name in names])


@st.composite
def completed(draw: st.DrawFn, *, case: Case) -> Case:
    """With a way for the rows, and as many of them on every rank."""
    ranks, parts = case.layout.data_ranks, case.training.accumulation
    rows = case.part_rows - case.part_rows % ranks or ranks
    if case.data.regime != "exact":
        most = max(1, MOST_ROUTED // max(1, case.model.sequence) // parts // ranks)
        rows = ranks * min(rows // ranks, most)
    dispatch = Dispatch(
        exchange=draw(weighted((3, "functional"), (2, "nn"), (2, "padded"), (2, "gathered"))),
        product=draw(weighted((2, "loop"), (2, "grouped"), (1, "batched"))),
        form=draw(equally("one_hot", "gather")),
    )
    if dispatch.product == "grouped" and draw(sometimes(one_in=3)):
        dispatch = msgspec.structs.replace(dispatch, exchange="whole")
    return msgspec.structs.replace(
        case,
        dispatch=dispatch,
        replication=Replication(no_sync=case.replication.no_sync),
        start=Start(),
        data=msgspec.structs.replace(case.data, batch=rows * parts),
    )

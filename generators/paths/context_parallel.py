"""Context parallel: each sequence cut over `cp`, the parameters replicated or sharded over the same ranks.

The sequence's pieces meet in attention alone. Most models attend by the sides' own kernels, without
segments and biases, which torch's ring of kernels lacks.
"""

import functools

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layer import Layer
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from generators import layouts as places
from generators import models as shapes
from generators.chances import always, mixed
from generators.models import Purpose
from generators.paths import as_drawn, drawn_alone, flash_attention

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone
completed = as_drawn

AXIS = "cp"
AXES = ((1, (AXIS,)), (1, ("dp", AXIS)))


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """The sequence's axis, alone or beside one of data; its size divides the usual lengths."""
    least = min(2, max_world_size)

    def divides(mesh: Mesh) -> bool:
        ranks = mesh.size(AXIS)
        return ranks >= least and ranks & (ranks - 1) == 0

    choices = ((weight, places.meshes(axes=axes, max_world_size=max_world_size)) for weight, axes in AXES)
    return mixed(*choices).filter(divides)


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:  # noqa: ARG001  any mesh will do
    """Neither exact nor learnable: nothing in attention is exact, and long runs of it take too long."""
    return always("ordinary")


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:
    """Models with attention by the sides' kernels, few of them with masks, and models of sequences."""
    attending = flash_attention.models(mesh=mesh, purpose=purpose)
    others = mixed((1, shapes.sequence_models()), (1, shapes.token_models()))
    return mixed((12, attending.map(_without_masks)), (1, attending), (3, others))


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """Rows over the data axis, positions over `cp`; the parameters whole, or sharded over `cp`."""
    sharded = draw(st.booleans())
    parameters = [
        places.same(model, Shard(0) if name == AXIS and sharded else Replicate()) for name in mesh.names
    ]
    batch = [Shard(1) if name == AXIS else Shard(0) for name in mesh.names]
    return places.zipped(mesh=mesh, batch=batch, parameters=parameters)


def _without_masks(model: Model) -> Model:
    return msgspec.structs.replace(model, layers=tuple(map(_plain, model.layers)))


def _plain(layer: Layer) -> Layer:
    """The layer, attending from every position to all, or to all before it."""
    if layer.held is not None:
        return layer.holding(tuple(map(_plain, layer.held)))
    if not isinstance(layer, FlashAttention):
        return layer
    return msgspec.structs.replace(layer, segments=False, bias=False, keys=layer.length)

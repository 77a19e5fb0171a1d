"""Building blocks of real models, alone or between Linear layers, in the layouts of the other paths.

Its models are its own, so that the numbers of cases on other paths stay what they are.
"""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases import block as blocks
from difftest.cases.blocks import names
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from generators import layouts as places
from generators.chances import always, drawn_from, mixed, weighted
from generators.layers import ByParameter, Layers, Placement
from generators.models import Purpose
from generators.paths import as_drawn, drawn_alone
from generators.sizes import sequences, widths

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone
completed = as_drawn

AXES = (
    (3, ("dp",)),
    (2, ("dp_shard",)),
    (2, ("tp",)),
    (1, ("dp_replicate", "dp_shard")),
    (1, ("dp", "tp")),
    (2, ("dp_shard", "tp")),
)
SHARDED, TENSOR = "dp_shard", "tp"


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:  # noqa: ARG001  any mesh will do
    """Blocks are neither exact nor learnable."""
    return always("ordinary")


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """The axes of the other paths."""
    choices = ((weight, places.meshes(axes=axes, max_world_size=max_world_size)) for weight, axes in AXES)
    return mixed(*choices)


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:  # noqa: ARG001  one purpose
    """One block, with sizes that `tp` usually divides."""
    return _models(unit=mesh.shape[-1] if mesh.names[-1] == TENSOR else 1)


@functools.cache
@st.composite
def _models(draw: st.DrawFn, *, unit: int) -> Model:
    """A block alone or behind a Linear layer, and often before one."""
    name = draw(weighted(*((blocks.arguments_of(name).WEIGHT, name) for name in names())))
    block = blocks.layer(name, draw(drawn_from(blocks.arguments_of(name).drawn(unit))))
    behind, before = (draw(st.booleans()) for _ in range(2))
    stem: Layers = ()
    if behind and not block.vocabulary:
        stem = (Linear(inputs=draw(widths()), outputs=block.inputs),)
    head: Layers = ()
    if before or not (stem or block.parameters):
        head = (Linear(inputs=block.outputs, outputs=draw(widths(unit=unit))),)
    sequence = draw(sequences()) if block.positions else 0
    return Model(layers=(*stem, block, *head), sequence=sequence)


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """Each axis as in the path of its name; buffers are whole."""
    sliced: ByParameter = {}
    if mesh.names[-1] == TENSOR:
        sliced = draw(places.tensor_placements(model=model, size=mesh.shape[-1]))
    by_axis = [sliced if name == TENSOR else _over(name, model, sliced) for name in mesh.names]
    whole = dict.fromkeys(model.tensors(), Replicate())
    batch: list[Placement] = [Replicate() if name == TENSOR else Shard(0) for name in mesh.names]
    return places.zipped(mesh=mesh, batch=batch, parameters=[{**whole, **axis} for axis in by_axis])


def _over(axis: str, model: Model, sliced: ByParameter) -> ByParameter:
    """The placements over one data axis: few backends can express a dim that is sharded twice."""
    return {
        name: Shard(0) if axis == SHARDED and shape and sliced.get(name) != Shard(0) else Replicate()
        for name, shape in model.parameters().items()
    }

"""Meshes, and placements of a model's parameters over one axis, for the paths to put together.

The one idea: a layout over several axes is one mapping per axis, zipped. Only `tensor_placements` gives a
mapping with choices in it.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.cases.layout import MOST_RANKS, Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from difftest.ground.errors import UsageError
from generators.chances import equally, weighted
from generators.layers import ByParameter, Cut, Placement, load

MOST_AXIS_SIZE = 8
LEAST_RANKS = 2
USUAL_RANKS = (2, 4)


@functools.cache
def meshes(*, axes: tuple[str, ...], max_world_size: int = 8) -> SearchStrategy[Mesh]:
    """Meshes with these axes and 2 to `max_world_size` ranks: mostly 2 or 4, seldom an axis of one rank.

    A `max_world_size` of 1 is for a machine with one card, and gives one rank. Raises `UsageError` for a
    `max_world_size` out of range.
    """
    require_ranks(max_world_size)
    least = min(LEAST_RANKS, max_world_size)
    sizes = range(1, min(MOST_AXIS_SIZE, max_world_size) + 1)
    shapes_ = [
        s for s in itertools.product(sizes, repeat=len(axes)) if least <= math.prod(s) <= max_world_size
    ]
    ordered = sorted(shapes_, key=lambda shape: (math.prod(shape), -min(shape), shape))
    return weighted(*((_mesh_weight(s), Mesh(tuple(zip(axes, s, strict=True)))) for s in ordered))


def require_ranks(max_world_size: int) -> None:
    """`UsageError` for a `max_world_size` out of range."""
    if not 1 <= max_world_size <= MOST_RANKS:
        msg = f"max_world_size is {max_world_size}; allowed: 1 to {MOST_RANKS}"
        raise UsageError(msg)


def require_several(path: str, max_world_size: int) -> None:
    """`UsageError` where `path`, whose meshes have two ranks or more, may have one at most."""
    if max_world_size < LEAST_RANKS:
        msg = (
            f"max_world_size is {max_world_size}; allowed for the path {path}: {LEAST_RANKS} to {MOST_RANKS}"
        )
        raise UsageError(msg)


def _mesh_weight(shape: Sequence[int]) -> int:
    """Few ranks are cheap to run, and a mesh whose axes all have several ranks shows most."""
    ranks = math.prod(shape)
    usual = 6 if ranks in USUAL_RANKS else 2 if ranks <= MOST_AXIS_SIZE else 1
    return usual * (1 if 1 in shape else len(shape) ** 2)


def same(model: Model, placement: Placement) -> ByParameter:
    """The same placement for every parameter of `model`."""
    return dict.fromkeys(model.parameters(), placement)


def zipped(*, mesh: Mesh, batch: Sequence[Placement], parameters: Sequence[ByParameter]) -> Layout:
    """The layout with one mapping per mesh axis, outermost first."""
    by_name = {name: tuple(axis[name] for axis in parameters) for name in parameters[0]}
    return Layout(mesh=mesh, batch=tuple(batch), parameters=by_name)


@st.composite
def tensor_placements(draw: st.DrawFn, *, model: Model, size: int) -> ByParameter:
    """Placements over a tensor-parallel axis of `size` ranks: usually Megatron's pattern, sometimes free."""
    kind = draw(weighted((3, megatron_placements), (1, free_placements)))
    return draw(kind(model=model, size=size))


@st.composite
def megatron_placements(draw: st.DrawFn, *, model: Model, size: int) -> ByParameter:
    """Pairs of Linear layers cut by columns then by rows where `size` divides what lies between; norms whole.

    `parallelize_module` can express this: between two modules every rank has a slice of the same width, or
    the whole.
    """
    cuts: dict[str, Cut] = {}
    outputs = {path: layer.gives(0) for path, layer in walk(model.layers) if _is_cut_freely(layer)}
    for first, second in _pairs(model.layers):
        if outputs[first] % size == 0:
            cuts |= draw(weighted((5, {first: "columns", second: "rows"}), (1, {})))
    for path, width in outputs.items():
        if path not in cuts and width % size == 0:
            cuts[path] = draw(weighted((3, "whole"), (1, "columns")))
    return _draw_others(draw, model=model, size=size, cuts=cuts)


@st.composite
def free_placements(draw: st.DrawFn, *, model: Model, size: int) -> ByParameter:
    """Each Linear layer cut independently, unevenly too."""
    linears = [path for path, layer in walk(model.layers) if _is_cut_freely(layer)]
    cuts = {path: draw(equally(*_CUTS)) for path in linears}
    return _draw_others(draw, model=model, size=size, cuts=cuts)


_CUTS: tuple[Cut, ...] = ("columns", "rows", "whole")


def _draw_others(draw: st.DrawFn, *, model: Model, size: int, cuts: Mapping[str, Cut]) -> ByParameter:
    """The placements that `cuts` give the Linear layers; those of other layers are drawn."""
    placed: dict[str, Placement] = dict(same(model, Replicate()))
    for path, layer in walk(model.layers):
        own = draw(load(layer.kind).placements(layer=layer, size=size, cut=cuts.get(path, "whole")))
        placed |= {f"{path}.{name}": placement for name, placement in own.items()}
    # A tied layer's bias goes with the rows of the embedding's weight, which are the layer's outputs
    for path, layer in walk(model.layers):
        source = layer.borrows().get("weight")
        if source and "bias" in layer.shapes() and placed[source] == Shard(0):
            placed[f"{path}.bias"] = Shard(0)
    return placed


def _pairs(layers: tuple[Layer, ...], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Paths of successive Linear layers with only activations between them; no layer is in two pairs."""
    first: str | None = None
    for index, layer in enumerate(layers):
        path = f"{prefix}{index}"
        if layer.held is not None:
            yield from _pairs(layer.held, f"{path}.")
        if _is_cut_freely(layer):
            if first is not None:
                yield first, path
            first = path if first is None else None
        elif not layer.ELEMENTWISE:
            first = None


def _is_cut_freely(layer: Layer) -> bool:
    """Whether `layer` is cut like a Linear layer with a weight of its own."""
    return layer.TENSOR_PARALLEL == "linear" and not layer.borrows()

"""Meshes: one to three axes, two ranks or more, small ones most of the time."""

import math

from hypothesis import strategies as st

from difftest.layout import Mesh

SIZES = (2, 4, 2, 3, 2, 8, 5, 6, 7)
"""Axis sizes, in the order and as often as they are liked."""


def meshes(*names: str, max_world_size: int) -> st.SearchStrategy[Mesh]:
    """Meshes with these axes, of at most `max_world_size` ranks; at least one axis has several."""
    shapes = _shapes(len(names), max_world_size)
    return st.sampled_from(shapes).map(lambda shape: Mesh(tuple(zip(names, shape, strict=True))))


def _shapes(axes: int, most: int) -> list[tuple[int, ...]]:
    """Every shape that fits; those of several axes have no axis of one rank while there is room for two each."""
    grown: list[tuple[int, ...]] = [()]
    for _ in range(axes):
        grown = [(*shape, size) for shape in grown for size in (*SIZES, 1)]
    fitting = [shape for shape in grown if 2 <= math.prod(shape) <= most]  # noqa: PLR2004  one rank shards nothing
    full = [shape for shape in fitting if min(shape) > 1]
    return full or fitting

"""Pipelines beside hybrid sharding and tensor parallelism within the stages: meshes of four axes.

Everything but the mesh is of the path `pipelines`, whose meshes have three axes at most.
"""

import functools
import math

from hypothesis.strategies import SearchStrategy

from difftest.cases.layout import Mesh
from generators import layouts as places
from generators.chances import weighted
from generators.paths import drawn_alone, pipelines

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone
purposes = pipelines.purposes
models = pipelines.models
layouts = pipelines.layouts
completed = pipelines.completed

AXES = ("pp", "dp_replicate", "dp_shard", "tp")
SHAPES = ((6, (2, 2, 2, 1)), (6, (2, 1, 2, 2)), (6, (2, 2, 1, 2)), (4, (2, 2, 2, 2)))
"""With their weights: three axes of several ranks, or four."""

FEW = ((1, (2, 1, 2, 1)), (1, (2, 1, 1, 2)), (1, (2, 2, 1, 1)), (1, (2, 1, 1, 1)))
"""Where there are too few ranks for these."""


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """`pp`, two data axes and `tp`, three of them with several ranks if there are enough."""
    places.require_several("compositions", max_world_size)
    able = [one for one in (*SHAPES, *FEW) if math.prod(one[1]) <= max_world_size]
    chosen = [one for one in able if one in SHAPES] or able
    return weighted(*((weight, Mesh(tuple(zip(AXES, shape, strict=True)))) for weight, shape in chosen))

"""Torch's own modules one by one, in training and evaluated, with all their tensors in every placement.

They are programs of one call, with the schedule of operators but without chains.
"""

from difftest.cases.case import Case
from difftest.cases.layout import Mesh
from generators.operators import schedule
from generators.operators.programs import single
from generators.paths import as_drawn, operators

DEFAULT = False
IN_BLOCKS = True
HAS_FEATURES = False
TAKES_ANY_MODEL = False

completed = as_drawn
meshes, purposes = operators.meshes, operators.purposes
models, layouts = operators.models, operators.layouts


def scheduled(*, seed: int, index: int, max_world_size: int) -> Case | Mesh | None:
    """A program of one module."""
    place = schedule.place_at(seed, index, max_world_size=max_world_size, kind="modules")
    if place.single is None:
        return place.mesh
    return single(place.single, path=__name__.rpartition(".")[2], mesh=place.mesh, seed=seed)

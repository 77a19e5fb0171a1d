"""Torch's own modules one by one, in training and evaluated, with all their tensors in every placement.

They are programs of one call, with the schedule of operators but without chains.
"""

from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layout import Layout, Mesh
from difftest.cases.model import Model
from generators.models import Purpose
from generators.operators import schedule
from generators.operators.programs import single
from generators.paths import as_drawn, operators

DEFAULT = False
IN_BLOCKS = True
HAS_FEATURES = False
TAKES_ANY_MODEL = False

completed = as_drawn


def scheduled(*, seed: int, index: int, max_world_size: int) -> Case | Mesh | None:
    """A program of one module."""
    place = schedule.place_at(seed, index, max_world_size=max_world_size, kind="modules")
    if place.single is None:
        return place.mesh
    return single(place.single, path=__name__.rpartition(".")[2], mesh=place.mesh, seed=seed)


def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """Those of operators."""
    return operators.meshes(max_world_size=max_world_size)


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:
    """Programs are neither exact nor learnable."""
    return operators.purposes(mesh=mesh)


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:
    """Chains of operators; the schedule has modules alone and asks for none."""
    return operators.models(mesh=mesh, purpose=purpose)


def layouts(*, model: Model, mesh: Mesh) -> SearchStrategy[Layout]:
    """Every tensor whole or sharded along any of its dims."""
    return operators.layouts(model=model, mesh=mesh)

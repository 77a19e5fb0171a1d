"""Programs of one operator with several results, of which the loss uses the first alone.

The others then have no gradient of their own, as half of a packed projection that a model drops. The meshes
are those of operators, and an operator's programs follow one another in the same order.
"""

import functools

from difftest.cases.case import Case
from difftest.cases.layers.operator import FLOATS
from difftest.cases.layout import Mesh
from generators.operators import schedule
from generators.operators.programs import single
from generators.operators.singles import Single, singles
from generators.operators.table import OperatorEntry, usable
from generators.paths import as_drawn, operators

DEFAULT = False
IN_BLOCKS = True
HAS_FEATURES = False
TAKES_ANY_MODEL = False

completed = as_drawn
meshes, purposes = operators.meshes, operators.purposes
models, layouts = operators.models, operators.layouts

FOREACH = "aten._foreach"
"""The operators of lists, each result of which is of one operand."""


def scheduled(*, seed: int, index: int, max_world_size: int) -> Case:
    """The next program of the next operator, in an order that the seed decides."""
    meshes = schedule.meshes(max_world_size)
    mesh = meshes[(seed + index // schedule.BLOCK) % len(meshes)]
    round_, position = divmod(index, len(_entries()))
    entry = _order(seed)[position]
    own = _differentiated(entry.name, mesh)
    chosen = own[(seed + round_) % len(own)]
    case = single(chosen, path=__name__.rpartition(".")[2], mesh=mesh, seed=seed)
    return case.changed("training", loss="first_cotangent")


@functools.cache
def _entries() -> tuple[OperatorEntry, ...]:
    """The operators that give several results, and gradients."""
    return tuple(
        entry
        for entry in usable()
        if not entry.name.startswith(FOREACH)
        and any(sample.gradient and len(sample.results) > 1 for sample in entry.samples)
    )


@functools.lru_cache(maxsize=4)
def _order(seed: int) -> tuple[OperatorEntry, ...]:
    return schedule.in_order("unused", seed, _entries())


@functools.lru_cache(maxsize=1024)
def _differentiated(name: str, mesh: Mesh) -> tuple[Single, ...]:
    """The programs of an operator that require a gradient of some operand."""
    own = [one for one in singles(name, mesh) if _learns(one)]
    return tuple(one for one in own if not one.operator.rejects) or singles(name, mesh)


def _learns(one: Single) -> bool:
    return any(operand.gradient and operand.dtype in FLOATS for operand in one.operator.operands.values())

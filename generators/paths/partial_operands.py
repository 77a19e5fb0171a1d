"""Programs of one operator with a float operand of which every rank holds a share: a partial sum.

A product over cut dims leaves such a tensor. Only DTensors have them, and only linear operators may be
applied to the shares. The operators and the meshes are those of the path `operators`.
"""

import functools
import hashlib
import random
from collections.abc import Iterator, Mapping

from difftest.cases.case import Case
from difftest.cases.layers.operator import Operand
from difftest.cases.layout import Mesh, Partial
from generators.operators import schedule
from generators.operators.programs import single
from generators.operators.singles import ByOperand, Single, placements
from generators.operators.table import entries, usable
from generators.paths import as_drawn, operators

DEFAULT = False
IN_BLOCKS = True
HAS_FEATURES = False
TAKES_ANY_MODEL = False

completed = as_drawn
meshes, purposes = operators.meshes, operators.purposes
models, layouts = operators.models, operators.layouts


def scheduled(*, seed: int, index: int, max_world_size: int) -> Case:
    """The next program of the next operator, in an order that the seed decides."""
    meshes = schedule.meshes(max_world_size)
    several = meshes[:-1] or meshes  # the last has one rank
    mesh = several[(seed + index // schedule.BLOCK) % len(several)]
    round_, position = divmod(index, len(_entries()))
    own = _shared(_order(seed)[position], mesh)
    return single(own[(seed + round_) % len(own)], path=__name__.rpartition(".")[2], mesh=mesh, seed=seed)


@functools.cache
def _entries() -> tuple[str, ...]:
    """The operators with a float operand."""
    return tuple(entry.name for entry in usable() if _shared(entry.name, schedule.PAIR))


@functools.lru_cache(maxsize=4)
def _order(seed: int) -> tuple[str, ...]:
    digest = hashlib.sha256(f"partial {seed}".encode()).digest()
    return tuple(random.Random(digest).sample(_entries(), len(_entries())))  # noqa: S311  not secret


@functools.lru_cache(maxsize=4096)
def _shared(name: str, mesh: Mesh) -> tuple[Single, ...]:
    """Each float operand of each sample a partial sum over the first axis, the others whole, and then cut."""
    entry = entries()[name]
    return tuple(
        Single(entry.operator(sample, form=entry.form), placed)
        for sample in entry.samples
        for placed in _placements(sample.operands, mesh)
    )


def _placements(operands: Mapping[str, Operand], mesh: Mesh) -> Iterator[ByOperand]:
    cut, *_, whole = placements(operands, mesh) * 2  # on one rank they are the same
    for name, operand in operands.items():
        for others in (whole, cut) if operand.is_float else ():
            yield {**others, name: (Partial(), *others[name][1:])}

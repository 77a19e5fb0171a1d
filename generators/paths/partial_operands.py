"""Programs of one operator with a float operand of which every rank holds a share: a partial sum.

A product over cut dims leaves such a tensor; a mean or the greatest over a cut dim leaves shares of that.
Only DTensors have them, and only linear operators may be applied to the shares. The operators and the meshes
are those of the path `operators`. Every fifth program is a norm over a cut dim, of which every rank holds a
share too, and operators behind it.
"""

import functools
from collections.abc import Iterator, Mapping

import msgspec
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layers.operator import Operand
from difftest.cases.layout import Layout, Mesh, Partial, PartialBy, Shard
from difftest.cases.model import Model
from generators.models import Purpose
from generators.operators import schedule
from generators.operators.chains import behind_norms
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

NORM = "0.input"
OTHERS = tuple(PartialBy(by) for by in ("avg", "max", "avg", "min"))
REDUCTIONS = tuple(by for other in OTHERS for by in (Partial(), other))
"""What makes the value of the shares, operator by operator."""

EVERY = 5
"""So many programs come with one of a norm."""


def scheduled(*, seed: int, index: int, max_world_size: int) -> Case | Mesh:
    """The next program of the next operator, in an order that the seed decides, or the mesh of a norm."""
    meshes = schedule.meshes(max_world_size)
    several = meshes[:-1] or meshes  # the last has one rank
    mesh = several[(seed + index // schedule.BLOCK) % len(several)]
    if index % EVERY == EVERY - 1:
        return mesh
    round_, position = divmod(index - index // EVERY, len(_entries()))
    by = REDUCTIONS[(position + round_) % len(REDUCTIONS)]
    own = _shared(_order(seed)[position], mesh, by)
    return single(own[(seed + round_) % len(own)], path=__name__.rpartition(".")[2], mesh=mesh, seed=seed)


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:  # noqa: ARG001  any mesh will do
    """Operators behind a norm."""
    return behind_norms().map(lambda behind: Model(layers=behind))


def layouts(*, model: Model, mesh: Mesh) -> SearchStrategy[Layout]:
    """That of chains, with what the norm is of cut along the first dim over the first axis."""
    return operators.layouts(model=model, mesh=mesh).map(_with_cut_norm)


def _with_cut_norm(layout: Layout) -> Layout:
    cut = (Shard(0), *layout.parameters[NORM][1:])
    return msgspec.structs.replace(layout, parameters={**layout.parameters, NORM: cut})


@functools.cache
def _entries() -> tuple[str, ...]:
    """The operators with a float operand."""
    return tuple(entry.name for entry in usable() if _shared(entry.name, schedule.PAIR, Partial()))


@functools.lru_cache(maxsize=4)
def _order(seed: int) -> tuple[str, ...]:
    return schedule.in_order("partial", seed, _entries())


@functools.lru_cache(maxsize=4096)
def _shared(name: str, mesh: Mesh, by: Partial) -> tuple[Single, ...]:
    """Each float operand of each sample in shares over the first axis, the others whole, and then cut.

    Beside shares of anything but a sum, other float operands are partial sums in place of cut.
    """
    entry = entries()[name]
    return tuple(
        Single(entry.operator(sample, form=entry.form), placed)
        for sample in entry.samples
        for placed in _placements(sample.operands, mesh, by)
    )


def _placements(operands: Mapping[str, Operand], mesh: Mesh, by: Partial) -> Iterator[ByOperand]:
    cut, *_, whole = placements(operands, mesh) * 2  # on one rank they are the same
    sums = {
        name: (Partial(), *whole[name][1:]) if operand.is_float else whole[name]
        for name, operand in operands.items()
    }
    for name, operand in operands.items():
        for others in (whole, cut if by == Partial() else sums) if operand.is_float else ():
            yield {**others, name: (by, *others[name][1:])}

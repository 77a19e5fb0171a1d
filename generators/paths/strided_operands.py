"""Programs of one operator with operands that two mesh axes cut in the other order (`Spelling.strided`).

FSDP over tensor parallelism leaves parameters so. The operators are those of the path `operators`; only
DTensors have such an order of cuts.
"""

import functools
import itertools
from collections.abc import Iterator

import msgspec

from difftest.cases.case import Case
from difftest.cases.layers.operator import Operand
from difftest.cases.layout import Mesh, Shard, replicated
from difftest.cases.options import Spelling
from generators.layouts import require_ranks
from generators.operators import schedule
from generators.operators.programs import single
from generators.operators.singles import ByOperand, Single
from generators.operators.table import OperatorEntry, Sample, usable
from generators.paths import as_drawn, operators

DEFAULT = False
IN_BLOCKS = True
HAS_FEATURES = False
TAKES_ANY_MODEL = False

completed = as_drawn
meshes, purposes = operators.meshes, operators.purposes
models, layouts = operators.models, operators.layouts

NARROW = Mesh((("dp", 2), ("tp", 1)))
"""Where there are too few ranks for two cuts."""


def scheduled(*, seed: int, index: int, max_world_size: int) -> Case | Mesh | None:
    """The next program of the next operator, in an order that the seed decides."""
    require_ranks(max_world_size)
    mesh = schedule.GRID if schedule.GRID.world_size <= max_world_size else NARROW
    round_, position = divmod(index, len(_entries()))
    own = _cut_twice(_order(seed)[position].name)
    case = single(own[round_ % len(own)], path=__name__.rpartition(".")[2], mesh=mesh, seed=seed)
    return msgspec.structs.replace(case, spelling=Spelling(strided=True))


@functools.cache
def _entries() -> tuple[OperatorEntry, ...]:
    """The operators with an operand that can be cut so."""
    return tuple(entry for entry in usable() if _cut_twice(entry.name))


@functools.lru_cache(maxsize=4)
def _order(seed: int) -> tuple[OperatorEntry, ...]:
    return schedule.in_order("strided", seed, _entries())


@functools.lru_cache(maxsize=2048)
def _cut_twice(name: str) -> tuple[Single, ...]:
    """Two operands cut in two orders, at first along the last dim of one; then each operand alone."""
    entry = next(one for one in usable() if one.name == name)
    return tuple(
        Single(entry.operator(sample, form=entry.form), placed)
        for sample in entry.samples
        for placed in _placements(sample)
    )


def _placements(sample: Sample) -> Iterator[ByOperand]:
    dims = {name: _even_dims(operand) for name, operand in sample.operands.items()}
    able = sorted(name for name, own in dims.items() if own)  # as `difftest.cases.reversed_cuts` takes them
    pairs = (
        {one: cut, other: late}
        for one, other in itertools.combinations(able, 2)
        for cut, late in itertools.product(reversed(dims[one]), dims[other])
    )
    alone = ({one: cut} for one in able for cut in dims[one])
    for chosen in itertools.chain(pairs, alone):
        yield {
            name: (Shard(chosen[name]),) * 2 if name in chosen else replicated(schedule.GRID)
            for name in sample.operands
        }


def _even_dims(operand: Operand) -> tuple[int, ...]:
    """The dims that both axes cut evenly: of uneven ones so cut torch 2.9's reader is known to be wrong."""
    return tuple(
        dim for dim, size in enumerate(operand.shape) if size and size % schedule.GRID.world_size == 0
    )

"""Cases near one: another dtype, another number of ranks, other placements, other shapes, one change each."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import NamedTuple, get_args

import msgspec

from difftest.cases.case import Case, DType
from difftest.cases.layout import Mesh, Placement, Placements, Replicate, Shard
from difftest.jobs.ask.capacity import is_runnable
from difftest.reduce.candidate import Candidate, tried
from difftest.reduce.simplifications import data, programs, sizes

AXIS_SIZES = (2, 3, 4)
"""Sizes of a mesh axis to try: two that cut most dims evenly, and one that does not."""

DTYPE, RANKS, PLACEMENT, SIZE = "dtype", "ranks", "placement", "size"


class Neighbour(NamedTuple):
    """A case, of what `kind` its change is, and the change in words."""

    kind: str
    words: str
    case: Case


def neighbours(case: Case, most: int) -> tuple[Neighbour, ...]:
    """So many cases near `case` that this machine can run, kinds of changes in turn."""
    kinds: Sequence[tuple[str, Callable[[Case], Iterator[Candidate]]]] = (
        (SIZE, _sizes),
        (PLACEMENT, _placements),
        (RANKS, _meshes),
        (DTYPE, _dtypes),
    )
    each = [[Neighbour(kind, *made) for made in make(case)] for kind, make in kinds]
    turns = (one for turn in zip_longest(*each) for one in turn if one is not None)
    different = {near.case.id: near for near in turns if near.case.id != case.id and is_runnable(near.case)}
    return tuple(different.values())[:most]


def _dtypes(case: Case) -> Iterator[Candidate]:
    for dtype in get_args(DType):
        yield from tried(f"dtype {dtype}", partial(msgspec.structs.replace, case, dtype=dtype))


def _meshes(case: Case) -> Iterator[Candidate]:
    """Another number of ranks on one axis."""
    axes = case.layout.mesh.axes
    for place, (name, size) in enumerate(axes):
        for ranks in AXIS_SIZES:
            if ranks != size:
                mesh = Mesh((*axes[:place], (name, ranks), *axes[place + 1 :]))
                yield from tried(f"{ranks} ranks on {name}", partial(case.changed, "layout", mesh=mesh))


def _placements(case: Case) -> Iterator[Candidate]:
    """One tensor placed otherwise over one axis: cut along another dim, or whole."""
    shapes = case.model.tensors()
    for name, placements in case.layout.parameters.items():
        others: list[Placement] = [*map(Shard, range(len(shapes[name]))), Replicate()]
        for axis, placement in enumerate(placements):
            for other in others if placement != Replicate() else others[:-1]:
                changed: Placements = (*placements[:axis], other, *placements[axis + 1 :])
                parameters = {**case.layout.parameters, name: changed}
                words = f"{name} is {other} over {case.layout.mesh.names[axis]}"
                yield from tried(words, partial(case.changed, "layout", parameters=parameters))


def _sizes(case: Case) -> Iterator[Candidate]:
    """Smaller operands, widths and batches."""
    simplify = chain(programs.SIMPLIFICATIONS, sizes.SIMPLIFICATIONS, data.SIMPLIFICATIONS)
    for words, made in (candidate for simplification in simplify for candidate in simplification(case)):
        if made.layout.mesh == case.layout.mesh and made.dtype == case.dtype:
            yield f"without {words}" if words else "smaller", made

"""Fewer ranks: one device, one axis, smaller axes; layers that refer to the mesh follow it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import msgspec

from difftest.cases.case import Case
from difftest.cases.evenness import uneven_cuts
from difftest.cases.layers import walk
from difftest.cases.layout import Mesh, Placements
from difftest.cases.pipelining import AXIS, Pipeline
from difftest.reduce.candidate import Candidate, Simplification, tried
from difftest.reduce.placed import Placed, edited
from difftest.reduce.simplifications.sizes import made_odd

ORDER = 0
LEAST = 2
"""The least number of ranks that share something."""


def one_device(case: Case) -> Iterator[Candidate]:
    """No sharding at all."""
    if case.world_size > 1:
        yield from tried(f"world size {case.world_size}", case.unsharded)


def two_ranks(case: Case) -> Iterator[Candidate]:
    """One axis alone with two ranks: the innermost first, which shards most."""
    for axis, (_, size) in reversed(list(enumerate(case.layout.mesh.axes))):
        if size >= LEAST and case.world_size > LEAST:
            yield from _evenly_or_not(f"mesh {case.layout.mesh}", case, {axis: LEAST})


def fewer_axes(case: Case) -> Iterator[Candidate]:
    """One axis less; those of one rank first."""
    mesh = case.layout.mesh
    for axis in sorted(range(len(mesh.axes)), key=lambda axis: mesh.shape[axis]):
        left = {other: size for other, size in enumerate(mesh.shape) if other != axis}
        if left and case.world_size // mesh.shape[axis] >= LEAST:
            yield from tried(f"mesh axis {mesh.names[axis]}={mesh.shape[axis]}", partial(on_axes, case, left))


def smaller_axes(case: Case) -> Iterator[Candidate]:
    """Fewer ranks along one axis: two, or three, which share little evenly."""
    sizes = dict(enumerate(case.layout.mesh.shape))
    for axis, (name, size) in enumerate(case.layout.mesh.axes):
        for few in dict.fromkeys((LEAST, LEAST + 1, (LEAST + size) // 2)):
            if few < size and len(sizes) * few > LEAST:  # one axis of two ranks was offered
                yield from _evenly_or_not(f"{size} ranks along {name}", case, {**sizes, axis: few})


SIMPLIFICATIONS: tuple[Simplification, ...] = (one_device, two_ranks, fewer_axes, smaller_axes)


def on_axes(case: Case, sizes: Mapping[int, int]) -> Case:
    """The case on fewer or smaller mesh axes; `sizes` has those that stay, by number.

    Where a layer exchanges rows between ranks, the batch is reduced to rows that all ranks share evenly.
    `ValueError` if that is no valid case.
    """
    mesh = Mesh(tuple((case.layout.mesh.names[axis], size) for axis, size in sizes.items()))

    def kept(placements: Placements) -> Placements:
        return tuple(placements[axis] for axis in sizes)

    def moved(_path: str, placed: Placed) -> tuple[Placed]:
        where = {name: kept(placements) for name, placements in placed.placements.items()}
        return (replace(placed, layer=placed.layer.on_axes(tuple(sizes), mesh.shape), placements=where),)

    fields = {"data": _shared(case, mesh), "pipeline": _stages(case, mesh)}
    return edited(case, moved, mesh=mesh, batch=kept(case.layout.batch), **fields)


def _stages(case: Case, mesh: Mesh) -> Pipeline | msgspec.UnsetType:
    """The pipeline over the ranks that are left of its axis; none without the axis."""
    ranks, before = dict(mesh.axes).get(AXIS), dict(case.layout.mesh.axes).get(AXIS)
    return case.staged.on(ranks, before) if case.staged and ranks and before else msgspec.UNSET


def _evenly_or_not(words: str, case: Case, sizes: Mapping[int, int]) -> Iterator[Candidate]:
    """The case on those axes.

    If its ranks share something unevenly, also with sizes that the fewer ranks do not share evenly.
    """
    yield from tried(words, partial(on_axes, case, sizes))
    if uneven_cuts(case):
        yield from tried(words, lambda: made_odd(on_axes(case, sizes)))


def _shared(case: Case, mesh: Mesh) -> msgspec.Struct:
    """The data, with rows that all ranks share evenly if a layer exchanges them."""
    if not any(layer.BETWEEN_RANKS for _, layer in walk(case.model.layers)):
        return case.data
    unit = mesh.world_size * case.training.accumulation
    return msgspec.structs.replace(case.data, batch=max(unit, case.data.batch // unit * unit))

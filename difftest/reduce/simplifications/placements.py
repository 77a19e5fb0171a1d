"""Fewer cuts: parameters and the batch replicated, one mesh axis at a time."""

from collections.abc import Iterator, Sequence

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layout import Placements, Replicate, Shard
from difftest.reduce.candidate import Candidate, Simplification, by_parts

ORDER = 4


def whole_parameters(case: Case) -> Iterator[Candidate]:
    """Parameters replicated over an axis that shards them."""
    cuts = [
        (f"{name} sharded along dim {placement.dim} over {axis_name}", (name, axis))
        for axis, (axis_name, _) in enumerate(case.layout.mesh.axes)
        for name, placements in case.layout.parameters.items()
        if isinstance(placement := placements[axis], Shard)
    ]

    def replicated(cuts: Sequence[tuple[str, int]]) -> Case:
        parameters = {
            name: _replicated(placements, [axis for cut, axis in cuts if cut == name])
            for name, placements in case.layout.parameters.items()
        }
        return case.changed("layout", parameters=parameters)

    yield from by_parts(cuts, replicated)


def whole_batch(case: Case) -> Iterator[Candidate]:
    """The batch replicated over an axis that cuts it, unless a layer exchanges rows between ranks."""
    if any(layer.BETWEEN_RANKS for _, layer in walk(case.model.layers)):
        return
    cuts = [
        (f"the batch cut along dim {placement.dim} over {name}", axis)
        for axis, (name, placement) in enumerate(zip(case.layout.mesh.names, case.layout.batch, strict=True))
        if isinstance(placement, Shard)
    ]

    def uncut(axes: Sequence[int]) -> Case:
        batch = _replicated(case.layout.batch, axes)
        return case.changed("layout", batch=batch)

    yield from by_parts(cuts, uncut)


SIMPLIFICATIONS: tuple[Simplification, ...] = (whole_parameters, whole_batch)


def _replicated(placements: Placements, axes: Sequence[int]) -> Placements:
    return tuple(Replicate() if axis in axes else placement for axis, placement in enumerate(placements))

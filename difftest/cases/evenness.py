"""How tensors are cut: whole, into equal pieces, into unequal ones, or so that some rank gets none."""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from difftest.cases.case import Case
from difftest.cases.layers.operator import full_name
from difftest.cases.layout import Mesh, Placements, local_slices, uneven_axes, ways

Evenness: TypeAlias = Literal["whole", "even", "uneven", "empty"]

ORDER: tuple[Evenness, ...] = get_args(Evenness)
"""From what every backend does to what few programs do."""


def evenness(shape: Sequence[int], placements: Placements, mesh: Mesh) -> Evenness:
    """How a tensor of `shape` is cut; `empty` where some rank is left without any element."""
    if all(ways(dim, placements, mesh) == 1 for dim in range(len(shape))):
        return "whole"
    pieces = {
        tuple(held.stop - held.start for held in local_slices(shape, placements, mesh, rank))
        for rank in range(mesh.world_size)
    }
    if any(math.prod(piece) == 0 for piece in pieces):
        return "empty"
    return "even" if len(pieces) == 1 else "uneven"


def of_case(case: Case) -> Evenness:
    """The last in `ORDER` of the batch and of every parameter and buffer with placements."""
    layout, shapes = case.layout, case.model.tensors()
    kinds = [evenness(shapes[name], at, layout.mesh) for name, at in layout.parameters.items()]
    rows = (case.data.batch, *[case.model.sequence] * bool(case.model.sequence), case.model.inputs)
    return _last([*kinds, evenness(rows, layout.batch, layout.mesh)])


def of_operators(case: Case) -> dict[str, Evenness]:
    """By layer of a program, the last in `ORDER` of the operands that it names.

    A result of an earlier layer counts as that layer does, because the framework chooses its placements by
    that layer's operands. Empty for other cases.
    """
    shapes, layout = case.model.tensors(), case.layout
    kinds: dict[str, Evenness] = {}
    for path, layer in case.model.operators.items():
        names = [full_name(path, name) for name in layer.references()]
        own = [f"{path}.{name}" for name in layer.operands]
        kinds[path] = _last(
            [
                evenness(shapes[name], layout.parameters[name], layout.mesh)
                if name in layout.parameters
                else kinds.get(name.partition(".")[0], "whole")
                for name in (*own, *names)
            ]
        )
    return kinds


def _last(kinds: Sequence[Evenness]) -> Evenness:
    return max(kinds, key=ORDER.index, default="whole")


def uneven_cuts(case: Case) -> int:
    """How many mesh axes cut a parameter or the rows of an accumulation part unevenly."""
    return sum(uneven_axes(shape, placements, case.layout.mesh) for shape, placements in case.placements())

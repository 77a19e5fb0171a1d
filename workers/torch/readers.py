"""Torch's own `full_tensor` beside what the ranks hold: how they differ, by shape and placements."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from difftest.cases.layout import Slices
from difftest.judge.noise import FLOORS_MOST
from difftest.judge.outcome import Array
from workers.training.pieces import shape_of, values

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

MOST_CHARACTERS = 200

READINGS = 4
"""How often tensors of one kind are compared in a run: what a reader makes of them depends on the kind.

The first ones may be zeros, which look right whatever the order.
"""


@dataclass(frozen=True, slots=True)
class Readers:
    """Collects what differs. All ranks read the same tensors in the same order, as `full_tensor` needs it."""

    misread: dict[str, float] = field(default_factory=dict)
    _readings: Counter[str] = field(default_factory=Counter)

    def compare(self, tensor: "DTensor", piece: Array, where: Slices) -> None:
        """Notes how far the part `where` of `full_tensor` is from what is `piece` of it."""
        kind = f"{tuple(tensor.shape)} at {', '.join(map(str, tensor.placements))}"[:MOST_CHARACTERS]
        self._readings[kind] += 1
        if self._readings[kind] > READINGS:
            return
        whole = values(tensor.full_tensor().detach().to("cpu"))
        part = whole[where] if whole.shape == shape_of(tensor) else np.full(piece.shape, np.inf)
        if part.shape == piece.shape and np.array_equal(part, piece, equal_nan=True):
            return
        self.misread[kind] = max(self.misread.get(kind, 0.0), distance(part, piece))


def is_uneven(tensor: "DTensor") -> bool:
    """Whether the ranks' pieces of a tensor differ in size, or are cut in chunks."""
    sizes = zip(tensor.placements, tensor.device_mesh.shape, strict=True)
    ways: dict[int, int] = {}
    for placement, ranks in sizes:
        if (dim := getattr(placement, "dim", None)) is not None and ranks > 1:
            if type(placement).__name__ != "Shard":
                return True
            ways[dim] = ways.get(dim, 1) * ranks
    return any(tensor.shape[dim] % parts for dim, parts in ways.items())


def distance(part: Array, piece: Array) -> float:
    """The greatest difference of two arrays, in their units; `FLOORS_MOST` if shapes differ."""
    if part.shape != piece.shape or part.dtype == bool:
        return FLOORS_MOST
    gap = np.abs(part.astype(np.float64) - piece.astype(np.float64))
    return float(np.nan_to_num(gap, nan=FLOORS_MOST, posinf=FLOORS_MOST).max(initial=0.0))

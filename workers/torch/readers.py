"""Torch's own `full_tensor` beside what the ranks hold: how they differ, by shape and placements."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from difftest.cases.layout import Slices
from difftest.judge.outcome import Array
from workers.training.pieces import shape_of, values

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Readers:
    """Collects what differs. All ranks read the same tensors in the same order, as `full_tensor` needs it."""

    misread: dict[str, float] = field(default_factory=dict)

    def compare(self, tensor: "DTensor", piece: Array, where: Slices) -> None:
        """Notes how far the part `where` of `full_tensor` is from what is `piece` of it."""
        whole = values(tensor.full_tensor().detach().to("cpu"))
        part = whole[where] if whole.shape == shape_of(tensor) else np.full(piece.shape, np.inf)
        if part.shape == piece.shape and np.array_equal(part, piece, equal_nan=True):
            return
        kind = f"{tuple(tensor.shape)} at {', '.join(map(str, tensor.placements))}"[:MOST_CHARACTERS]
        self.misread[kind] = max(self.misread.get(kind, 0.0), _distance(part, piece))


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


def _distance(part: Array, piece: Array) -> float:
    if part.shape != piece.shape or part.dtype == bool:
        return float("inf")
    gap = np.abs(part.astype(np.float64) - piece.astype(np.float64))
    return float(np.nan_to_num(gap, nan=np.inf).max(initial=0.0))

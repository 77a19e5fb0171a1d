"""What a rank passes to a collective, and what it makes of the result, whatever runs the collective.

A rank's (rows, width) becomes parcels (slices, rows, part of the width). Slices are what the ranks of a group
exchange, so every collective works along dim 0. A collective of one tensor and one of a list of tensors
differ only in the number of parcels.
"""

import torch
from torch import Tensor

from difftest.cases.layers.collective import SLICED, Collective


def packed(tensor: Tensor, spec: Collective) -> list[Tensor]:
    """The parcels of one rank: one, or the two halves of the width.

    Halves are those of each slice, if a slice can be halved. They share no memory.
    """
    whole = tensor.unflatten(-1, (spec.ranks if spec.operation in SLICED else 1, -1)).movedim(1, 0)
    halves = whole.chunk(2, -1) if spec.form == "list" else (whole,)
    return [half.clone(memory_format=torch.contiguous_format) for half in halves]


def unpacked(parcels: list[Tensor]) -> Tensor:
    """(rows, slices * width) from parcels (slices, rows, part of the width)."""
    return torch.cat(parcels, -1).movedim(0, 1).flatten(1)

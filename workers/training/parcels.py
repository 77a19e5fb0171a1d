"""What a rank hands to a collective and what it makes of the answer, whoever runs the collective.

The one idea: a rank's (rows, width) as parcels (slices, rows, part of the width). Slices are what the ranks of a group exchange, so every
collective is one along dim 0, and asking for one tensor or for a list of them differs in the number of parcels alone.
"""

import torch
from torch import Tensor

from difftest.cases.layers.collective import Collective

EXCHANGED = ("reduce_scatter", "all_to_all")
"""Collectives that take a slice for every rank of the group."""


def packed(tensor: Tensor, spec: Collective) -> list[Tensor]:
    """The parcels of one rank: one, or the two halves of the width (of a slice's, where a slice can be halved). They share no memory."""
    whole = tensor.unflatten(-1, (spec.ranks if spec.operation in EXCHANGED else 1, -1)).movedim(1, 0)
    halves = whole.chunk(2, -1) if spec.form == "list" else (whole,)
    return [half.clone(memory_format=torch.contiguous_format) for half in halves]


def unpacked(parcels: list[Tensor]) -> Tensor:
    """(rows, slices * width) from parcels (slices, rows, part of the width)."""
    return torch.cat(parcels, -1).movedim(0, 1).flatten(1)

"""Rotary position embeddings, as transformers and as Meta's Llama write them."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from workers.training.blocks import Sizes, widened


class RealRotation(nn.Module):
    """`x * cosines + turned(x) * sines`, where a half of the columns is turned into the other."""

    cosines: Tensor
    sines: Tensor

    def __init__(self, heads: int, angles: Tensor, rounded: torch.dtype) -> None:
        super().__init__()
        self.heads = heads
        both = torch.cat([angles, angles], dim=-1)
        self.register_buffer("cosines", both.cos().to(rounded).double(), persistent=False)
        self.register_buffer("sines", both.sin().to(rounded).double(), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, sequence, heads * head_dim) to the same."""
        length = inputs.shape[1]
        x = inputs.unflatten(-1, (self.heads, -1))
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat([-second, first], dim=-1)
        cosines, sines = (table[:length].unsqueeze(1) for table in (self.cosines, self.sines))
        rotated: Tensor = (x * cosines + turned * sines).flatten(-2)
        return rotated


class ComplexRotation(nn.Module):
    """Neighbouring columns as complex numbers, times numbers of magnitude 1."""

    turns: Tensor

    def __init__(self, heads: int, angles: Tensor, rounded: torch.dtype) -> None:
        super().__init__()
        self.heads = heads
        turns = torch.stack([angles.cos(), angles.sin()], dim=-1)
        self.register_buffer("turns", turns.to(rounded).double(), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, sequence, heads * head_dim) to the same."""
        x = widened(inputs).unflatten(-1, (self.heads, -1, 2))
        turns = torch.view_as_complex(widened(self.turns)[: inputs.shape[1]])
        turned = torch.view_as_complex(x.contiguous()) * turns.unsqueeze(1)
        columns: Tensor = torch.view_as_real(turned).flatten(-3)
        return columns.to(inputs.dtype)


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The rotation in its form, with tables for more positions than the sequence has."""
    head_dim, positions = arguments["head_dim"], arguments["positions"]
    powers = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    angles = torch.outer(torch.arange(positions, dtype=torch.float64), float(arguments["base"]) ** -powers)
    form = RealRotation if arguments["form"] == "real" else ComplexRotation
    return form(arguments["heads"], angles, sizes.rounded)

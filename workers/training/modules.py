"""What the modules of all layer kinds share: layers in order, what is fed beside their input, and heads."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from torch import Tensor, nn

Extras: TypeAlias = Mapping[str, Tensor]
"""What single layers read beside their input (`difftest.cases.numbers.Batch`)."""

NO_EXTRAS: Extras = MappingProxyType({})


class Reader(nn.Module):
    """A module whose `forward` is given the extras too."""


class Chain(nn.Sequential):
    """Layers in order; the extras go to those that read them."""

    def forward(self, inputs: Tensor, extras: Extras = NO_EXTRAS) -> Tensor:
        """(batch, [sequence,] width) to the same with the last layer's width."""
        for layer in self:
            inputs = layer(inputs, extras) if isinstance(layer, Reader) else layer(inputs)
        return inputs


def by_heads(projected: Tensor, head_dim: int, group: int = 1) -> Tensor:
    """(batch, positions, heads * head_dim) to (batch, heads * group, positions, head_dim).

    Every head is repeated `group` times in a row.
    """
    heads: Tensor = projected.unflatten(-1, (-1, head_dim)).transpose(1, 2)
    return heads if group == 1 else heads.repeat_interleave(group, dim=1)

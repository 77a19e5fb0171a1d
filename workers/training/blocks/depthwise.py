"""A depthwise convolution that looks back, and a pointwise one."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from workers.training.blocks import Sizes


class Depthwise(nn.Module):
    """`pointwise(silu(depthwise(x)))`, where position i sees no later one."""

    def __init__(self, width: int, kernel: int, multiplier: int) -> None:
        super().__init__()
        filters = width * multiplier
        self.depthwise = nn.Conv1d(width, filters, kernel, groups=width, padding=kernel - 1)
        self.pointwise = nn.Linear(filters, width, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, sequence, width) to the same."""
        filtered = self.depthwise(inputs.transpose(1, 2))[..., : inputs.shape[1]]
        result: Tensor = self.pointwise(functional.silu(filtered.transpose(1, 2)))
        return result


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The convolutions."""
    return Depthwise(**arguments)

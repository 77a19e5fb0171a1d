"""Weight normalization, as a parametrization of torch's."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from workers.training.blocks import Sizes


class WeightNorm(nn.Module):
    """A Linear layer whose weight follows from a magnitude and a direction."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = weight_norm(nn.Linear(inputs, outputs))

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, inputs) to (batch, outputs)."""
        result: Tensor = self.linear(inputs)
        return result


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The layer."""
    return WeightNorm(**arguments)

"""A frozen Linear layer with a correction of low rank."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from workers.training.blocks import Sizes


class LoRA(nn.Module):
    """`base(x) + alpha / rank * up(down(x))`; nothing of `base` is trained."""

    def __init__(self, inputs: int, outputs: int, rank: int, alpha: float) -> None:
        super().__init__()
        self.scale = alpha / rank
        self.base = nn.Linear(inputs, outputs).requires_grad_(False)  # noqa: FBT003  torch's signature
        self.down = nn.Linear(inputs, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, inputs) to (batch, outputs)."""
        result: Tensor = self.base(inputs) + self.scale * self.up(self.down(inputs))
        return result


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The layer."""
    return LoRA(**arguments)

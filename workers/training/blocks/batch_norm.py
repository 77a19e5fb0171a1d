"""Batch normalization over rows."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from workers.training.blocks import Sizes


class BatchNorm(nn.Module):
    """`nn.BatchNorm1d`, which keeps its own mode: in evaluation it uses the running statistics."""

    def __init__(self, width: int, momentum: float, *, affine: bool, train: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, momentum=momentum, affine=affine).train(train)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, width) to the same."""
        result: Tensor = self.norm(inputs)
        return result


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The norm."""
    return BatchNorm(
        arguments["width"],
        arguments["momentum"],
        affine=arguments["affine"],
        train=arguments["train"],
    )

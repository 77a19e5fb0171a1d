"""A convolution over images, batch normalization and pooling."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from workers.training.blocks import Sizes

POOLS: Mapping[str, nn.Module] = {
    "max": nn.MaxPool2d(2),
    "average": nn.AvgPool2d(2),
    "adaptive": nn.AdaptiveAvgPool2d(1),
}


class Convolution(nn.Module):
    """Convolution, norm, ReLU and pooling of images that come and go in rows."""

    def __init__(self, channels: int, filters: int, kernel: int, norm: str, pool: str) -> None:
        super().__init__()
        self.channels = channels
        bias = norm == "none"
        self.conv = nn.Conv2d(channels, filters, kernel, padding=kernel // 2, bias=bias)
        self.norm = nn.Identity() if bias else nn.BatchNorm2d(filters).train(norm == "train")
        self.pool = POOLS[pool]

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, channels * side * side) to (batch, filters * pooled * pooled)."""
        side = round((inputs.shape[-1] // self.channels) ** 0.5)
        images = self.conv(inputs.unflatten(-1, (self.channels, side, side)))
        pooled: Tensor = self.pool(functional.relu(self.norm(images)))
        return pooled.flatten(1)


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The block."""
    return Convolution(**{name: value for name, value in arguments.items() if name != "side"})

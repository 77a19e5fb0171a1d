"""One level of a UNet."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from workers.training.blocks import Sizes


class Level(nn.Module):
    """Average pooling, convolution, group norm and SiLU, interpolation, and a convolution of both."""

    def __init__(self, groups: int, side: int, mode: str) -> None:
        super().__init__()
        channels = 2 * groups
        self.image = (channels, side, side)
        self.mode = "nearest" if mode == "nearest" else "bilinear"
        self.corners = None if mode == "nearest" else mode == "corners"
        self.inner = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.GroupNorm(groups, channels)
        self.joined = nn.Conv2d(2 * channels, channels, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, channels * side * side) to the same."""
        images = inputs.unflatten(-1, self.image)
        inner = functional.silu(self.norm(self.inner(functional.avg_pool2d(images, 2))))
        larger = functional.interpolate(inner, scale_factor=2, mode=self.mode, align_corners=self.corners)
        joined: Tensor = self.joined(torch.cat([images, larger], dim=1))
        return joined.flatten(1)


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The level."""
    return Level(**arguments)

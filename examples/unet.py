"""A small UNet: down by strides, up by interpolation, joined by shortcuts; its loss is its own."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class UNet(nn.Module):
    """(rows, 1, 8, 8) and the time of each row to (rows, 1, 8, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.time = nn.Linear(1, 16)
        self.middle, self.norm = nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(4, 16)
        self.up, self.last = nn.Conv2d(24, 8, 3, padding=1), nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, image: Tensor, time: Tensor) -> Tensor:
        """The noise in the image."""
        first = functional.silu(self.first(image))
        low = self.down(first) + self.time(time)[:, :, None, None]
        low = functional.silu(self.norm(self.middle(low)))
        high = functional.interpolate(low, scale_factor=2.0, mode="nearest")
        return self.last(functional.silu(self.up(torch.cat([high, first], 1))))


def build(seed: int) -> nn.Module:
    """The model."""
    return UNet()


def batch(generator: torch.Generator, rows: int) -> tuple[dict[str, Tensor], Tensor]:
    """Noisy images with their times, and the noise."""
    clean, noise = (torch.randn(rows, 1, 8, 8, generator=generator) for _ in range(2))
    time = torch.rand(rows, 1, generator=generator)
    return {"image": clean + noise * time[:, :, None, None], "time": time}, noise


def loss(outputs: Tensor, noise: Tensor) -> Tensor:
    """The mean absolute error, smooth near zero."""
    return functional.smooth_l1_loss(outputs, noise)

"""A small ResNet, with group normalization: its rows do not influence each other."""

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 5


class Block(nn.Module):
    """Two convolutions beside a shortcut, which halves positions where the channels change."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.GroupNorm(2, outputs) for _ in range(2))
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(rows, inputs, height, width) to (rows, outputs, ...)."""
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(y)) + self.shortcut(x))


def build(seed: int) -> nn.Module:
    """A convolution, pooling, two blocks and a linear head."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        Block(4, 4),
        Block(4, 8),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, CLASSES),
    )


def batch(generator: torch.Generator, rows: int) -> tuple[Tensor, Tensor]:
    """Images and classes."""
    images = torch.randn(rows, 3, 12, 12, generator=generator)
    return images, torch.randint(0, CLASSES, (rows,), generator=generator)

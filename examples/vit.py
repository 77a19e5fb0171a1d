"""A small vision transformer: patches by a convolution, learned positions, torch's encoder layers."""

import torch
from torch import Tensor, nn

SIZE, PATCH, WIDTH, CLASSES = 16, 8, 16, 5


class VisionTransformer(nn.Module):
    """(rows, 3, SIZE, SIZE) to (rows, CLASSES)."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.first = nn.Parameter(torch.randn(1, 1, WIDTH) / 4)
        self.positions = nn.Parameter(torch.randn(1, (SIZE // PATCH) ** 2 + 1, WIDTH) / 4)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 2 * WIDTH, dropout=0.1, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Classes from the state of the first position."""
        patches = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(patches), -1, -1), patches], 1) + self.positions
        return self.head(self.encoder(x)[:, 0])


def build(seed: int) -> nn.Module:
    """The model."""
    return VisionTransformer()


def batch(generator: torch.Generator, rows: int) -> tuple[Tensor, Tensor]:
    """Images and classes."""
    images = torch.randn(rows, 3, SIZE, SIZE, generator=generator)
    return images, torch.randint(0, CLASSES, (rows,), generator=generator)

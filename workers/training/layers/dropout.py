"""Dropout with a mask that is fed."""

from torch import Tensor, nn

from difftest.cases.layers import dropout
from workers.training.layers import Plan
from workers.training.modules import Extras, Reader


class Dropout(Reader):
    """Multiplies by the mask of its path."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.mask = f"mask {path}"

    def forward(self, inputs: Tensor, extras: Extras) -> Tensor:
        """Same shape out as in."""
        return inputs * extras[self.mask]


def module(layer: dropout.Dropout, path: str, plan: Plan) -> nn.Module:
    """It knows its mask by its path."""
    return Dropout(path)

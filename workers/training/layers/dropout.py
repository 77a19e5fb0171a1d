"""Dropout with a mask that is fed, and torch's own that drops nothing where the program has it."""

from torch import Tensor, nn
from torch.nn import functional

from difftest.cases.layers import dropout
from workers.training.layers import Plan
from workers.training.modules import Extras, Reader


class Dropout(Reader):
    """Multiplies by the mask of its path; `torch_too`: behind torch's own dropout, with probability 0."""

    def __init__(self, path: str, *, torch_too: bool) -> None:
        super().__init__()
        self.mask, self.torch_too = f"mask {path}", torch_too

    def forward(self, inputs: Tensor, extras: Extras) -> Tensor:
        """Same shape out as in."""
        if self.torch_too:
            inputs = functional.dropout(inputs, 0.0)
        return inputs * extras[self.mask]


def module(layer: dropout.Dropout, path: str, plan: Plan) -> nn.Module:
    """It knows its mask by its path."""
    return Dropout(path, torch_too=plan.spelling.torch_dropout)

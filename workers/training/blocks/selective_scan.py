"""A selective scan, as a loop over positions."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from workers.training.blocks import Sizes


class SelectiveScan(nn.Module):
    """Every channel has states that decay and take in its input, by steps that depend on the position."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.zeros(width, states))
        self.skip = nn.Parameter(torch.zeros(width))
        self.steps = nn.Linear(width, width)
        self.entering = nn.Linear(width, states, bias=False)
        self.leaving = nn.Linear(width, states, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, sequence, width) to the same."""
        steps = functional.softplus(self.steps(inputs))
        decays = torch.exp(steps.unsqueeze(-1) * -self.rates.exp())
        entering = (steps * inputs).unsqueeze(-1) * self.entering(inputs).unsqueeze(-2)
        leaving = self.leaving(inputs).unsqueeze(-2)
        state, results = torch.zeros_like(entering[:, 0]), []
        for position in range(inputs.shape[1]):
            state = decays[:, position] * state + entering[:, position]
            results.append((state * leaving[:, position]).sum(dim=-1))
        return torch.stack(results, dim=1) + self.skip * inputs


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The scan."""
    return SelectiveScan(**arguments)

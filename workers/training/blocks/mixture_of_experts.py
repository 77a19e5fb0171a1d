"""A mixture of experts with top-k routing."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from workers.training.blocks import Sizes, widened


class MixtureOfExperts(nn.Module):
    """A router in float32 at least, and experts of two matrices with SiLU between them."""

    def __init__(self, width: int, hidden: int, experts: int, top: int) -> None:
        super().__init__()
        self.experts, self.top = experts, top
        self.rising = nn.Parameter(torch.zeros(experts, width, hidden))
        self.falling = nn.Parameter(torch.zeros(experts, hidden, width))
        self.router = nn.Linear(width, experts, bias=False)

    def routed(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The weights and the numbers of each row's experts: (rows, top), (rows, top)."""
        scores = widened(functional.linear(inputs, self.router.weight)).softmax(dim=-1)
        weights, chosen = scores.topk(self.top, dim=-1)
        return (weights / weights.sum(dim=-1, keepdim=True)).to(inputs.dtype), chosen

    def expert(self, rows: Tensor) -> Tensor:
        """(experts, slots, width) to the same."""
        return functional.silu(rows @ self.rising) @ self.falling


class DenseMixture(MixtureOfExperts):
    """Every expert runs on every row."""

    def forward(self, inputs: Tensor) -> Tensor:
        """(rows, width) to the same."""
        weights, chosen = self.routed(inputs)
        shares = functional.one_hot(chosen, self.experts).to(inputs.dtype) * weights.unsqueeze(-1)
        results = self.expert(inputs.unsqueeze(0).expand(self.experts, -1, -1))
        return torch.einsum("erw,re->rw", results, shares.sum(dim=1))


class ScatteredMixture(MixtureOfExperts):
    """Rows are moved to slots, and results back; what finds no slot counts as 0."""

    def __init__(self, *sizes: int, capacity: int) -> None:
        super().__init__(*sizes)
        self.capacity = capacity

    def forward(self, inputs: Tensor) -> Tensor:
        """(rows, width) to the same."""
        weights, chosen = self.routed(inputs)
        wanted = chosen.flatten()
        before = functional.one_hot(wanted, self.experts).cumsum(dim=0).gather(1, wanted.unsqueeze(1)) - 1
        fits = before.squeeze(1) < self.capacity
        last = self.experts * self.capacity  # the slot of all rows that are dropped
        slots = torch.where(fits, wanted * self.capacity + before.squeeze(1), last)
        held = inputs.new_zeros(last + 1, inputs.shape[1])
        held = held.index_add(0, slots, inputs.repeat_interleave(self.top, dim=0))
        results = self.expert(held[:last].unflatten(0, (self.experts, self.capacity))).flatten(0, 1)
        returned = results.index_select(0, slots.clamp(max=last - 1)) * fits.unsqueeze(1)
        weighted = returned * weights.flatten().unsqueeze(1)
        summed: Tensor = weighted.unflatten(0, (-1, self.top)).sum(dim=1)
        return summed


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The mixture with its way to dispatch rows."""
    sized = [arguments[name] for name in ("width", "hidden", "experts", "top")]
    if arguments["dispatch"] == "dense":
        return DenseMixture(*sized)
    return ScatteredMixture(*sized, capacity=arguments["capacity"])

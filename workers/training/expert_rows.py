"""How rows reach their experts and come back, on tensors that hold all rows and all experts.

The oracle's definition is a loop over rows. What a compiler cuts over devices are two forms of torch's
operators without any number that the host would have to read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from difftest.cases.layers.routed_experts import Function, RoutedExperts
from difftest.cases.wrapping import Dispatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """Rows (rows, width), the numbers of their experts (rows, top), and what their results are weighted by.

    `gates` are (rows, top). `rising` and `falling` are the experts' matrices.
    """

    rows: Tensor
    chosen: Tensor
    gates: Tensor
    rising: Tensor
    falling: Tensor
    layer: RoutedExperts
    dispatch: Dispatch

    @property
    def choices(self) -> Tensor:
        """The numbers of all rows' experts, one row after another: (rows * top)."""
        return self.chosen.flatten().long()

    @property
    def slots(self) -> int:
        """How many rows an expert has places for."""
        rows = len(self.rows)
        return min(rows, self.layer.capacity or rows)

    def through(self, rows: Tensor, rising: Tensor, falling: Tensor) -> Tensor:
        """An expert's result for rows (..., width), or that of several experts for as many stacks of rows."""
        return activated(self.layer.function, rows @ rising) @ falling

    def summed(self, results: Tensor) -> Tensor:
        """The weighted sums of rows from the results of all choices (rows * top, width)."""
        weighted = results * self.gates.flatten().unsqueeze(-1)
        summed: Tensor = weighted.unflatten(0, self.chosen.shape).sum(1)
        return summed


Route: TypeAlias = Callable[[Routed], Tensor]
"""From rows and their experts to the sum of these experts' weighted results: (rows, width)."""


def activated(function: Function, hidden: Tensor) -> Tensor:
    """The function between the matrices of an expert."""
    return functional.relu(hidden) if function == "relu" else functional.silu(hidden)


def by_rows(routed: Routed) -> Tensor:
    """The results of all rows: one row after another goes to its experts, unless these are full."""
    matrices = list(zip(routed.rising.unbind(), routed.falling.unbind(), strict=True))
    counts = [0] * len(matrices)
    results = []
    for row, numbers, gates in zip(
        routed.rows.split(1), routed.chosen.tolist(), routed.gates.unbind(), strict=True
    ):
        result = torch.zeros_like(row)
        for number, gate in zip(numbers, gates.unbind(), strict=True):
            expert = int(number)
            if routed.layer.capacity is None or counts[expert] < routed.layer.capacity:
                result = result + routed.through(row, *matrices[expert]) * gate
            counts[expert] += 1
        results.append(result)
    return torch.cat(results)


def at_once(routed: Routed) -> Tensor:
    """The results of all rows by way of slots, of which every expert has as many."""
    by_choice = _by_one_hot if routed.dispatch.form == "one_hot" else _by_gather
    return routed.summed(by_choice(routed, routed.rows.repeat_interleave(routed.chosen.shape[1], 0)))


def _by_one_hot(routed: Routed, rows: Tensor) -> Tensor:
    """The results of all choices: a matrix says in which slot of which expert each row is (GShard)."""
    wanted = functional.one_hot(routed.choices, routed.layer.experts)
    before = ((wanted.cumsum(0) - 1) * wanted).sum(-1)
    at = (before.unsqueeze(-1) == torch.arange(routed.slots, device=before.device)).unsqueeze(1)
    places = (wanted.unsqueeze(-1) * at).to(rows.dtype)  # (choices, experts, slots)
    placed = torch.einsum("kes,kw->esw", places, rows)
    return torch.einsum("kes,esw->kw", places, routed.through(placed, routed.rising, routed.falling))


def _by_gather(routed: Routed, rows: Tensor) -> Tensor:
    """The results of all choices: rows and results are taken by number, in the order of the experts."""
    experts, slots, choices = routed.layer.experts, routed.slots, routed.choices
    order = choices.argsort(stable=True)
    counts = functional.one_hot(choices, experts).sum(0)
    starts = counts.cumsum(0) - counts
    places = torch.arange(slots, device=choices.device)
    sources = (starts.unsqueeze(-1) + places).clamp(max=len(choices) - 1)
    used = places < counts.unsqueeze(-1)
    sorted_rows = rows.index_select(0, order[sources.flatten()])
    placed = sorted_rows.unflatten(0, (experts, slots)) * used.unsqueeze(-1)
    results = routed.through(placed, routed.rising, routed.falling).flatten(0, 1)
    before = order.argsort(stable=True) - starts[choices]
    returned = results.index_select(0, choices * slots + before.clamp(max=slots - 1))
    return returned * (before < slots).unsqueeze(-1)

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

    def through(self, rows: Tensor, rising: Tensor, falling: Tensor) -> Tensor:
        """An expert's result for rows (..., width), or that of several experts for as many stacks of rows."""
        return activated(self.layer.function, rows @ rising) @ falling


Route: TypeAlias = Callable[[Routed], Tensor]
"""From rows and their experts to the sum of these experts' weighted results: (rows, width)."""


def activated(function: Function, hidden: Tensor) -> Tensor:
    """The function between the matrices of an expert."""
    return functional.relu(hidden) if function == "relu" else functional.silu(hidden)


def by_rows(routed: Routed) -> Tensor:
    """The results of all rows: one row after another goes to its experts, unless these are full."""
    matrices = list(zip(routed.rising.unbind(), routed.falling.unbind(), strict=True))
    taken = [0] * len(matrices)
    results = []
    for row, numbers, gates in zip(
        routed.rows.split(1), routed.chosen.tolist(), routed.gates.unbind(), strict=True
    ):
        result = torch.zeros_like(row)
        for number, gate in zip(numbers, gates.unbind(), strict=True):
            expert = int(number)
            if routed.layer.capacity is None or taken[expert] < routed.layer.capacity:
                result = result + routed.through(row, *matrices[expert]) * gate
            taken[expert] += 1
        results.append(result)
    return torch.cat(results)


def at_once(routed: Routed) -> Tensor:
    """The results of all rows by way of slots, of which every expert has as many."""
    return (_by_one_hot if routed.dispatch.form == "one_hot" else _by_gather)(routed)


def _by_one_hot(routed: Routed) -> Tensor:
    """Rows are multiplied by a matrix that says in which slot of which expert each is (GShard)."""
    layer, (rows, top) = routed.layer, routed.chosen.shape
    wanted = functional.one_hot(routed.chosen.flatten().long(), layer.experts)
    before = ((wanted.cumsum(0) - 1) * wanted).sum(-1)
    slots = min(rows, layer.capacity or rows)
    at = (before.unsqueeze(-1) == torch.arange(slots, device=before.device)).unsqueeze(1)
    held = (wanted.unsqueeze(-1) * at).to(routed.rows.dtype)  # (choices, experts, slots)
    given = torch.einsum("kes,kw->esw", held, routed.rows.repeat_interleave(top, 0))
    results = torch.einsum("kes,esw->kw", held, routed.through(given, routed.rising, routed.falling))
    weighted = results * routed.gates.flatten().unsqueeze(-1)
    summed: Tensor = weighted.unflatten(0, (rows, top)).sum(1)
    return summed


def _by_gather(routed: Routed) -> Tensor:
    """Rows are taken by number, in the order of their experts, and so are the results."""
    layer, (rows, top) = routed.layer, routed.chosen.shape
    wanted = routed.chosen.flatten().long()
    order = wanted.argsort(stable=True)
    counts = functional.one_hot(wanted, layer.experts).sum(0)
    starts = counts.cumsum(0) - counts
    slots = min(rows, layer.capacity or rows)
    places = torch.arange(slots, device=wanted.device)
    sources = (starts.unsqueeze(-1) + places).clamp(max=len(wanted) - 1)
    used = places < counts.unsqueeze(-1)
    taken = routed.rows.repeat_interleave(top, 0).index_select(0, order[sources.flatten()])
    given = taken.unflatten(0, (layer.experts, slots)) * used.unsqueeze(-1)
    results = routed.through(given, routed.rising, routed.falling).flatten(0, 1)
    before = order.argsort(stable=True) - starts[wanted]
    kept = before < slots
    returned = results.index_select(0, wanted * slots + before.clamp(max=slots - 1))
    weighted = returned * (routed.gates.flatten() * kept).unsqueeze(-1)
    summed: Tensor = weighted.unflatten(0, (rows, top)).sum(1)
    return summed

"""Experts: gates and the shared expert are every backend's; how rows reach the others is an operator."""

import torch
from torch import Tensor, nn

from difftest.cases.layers import routed_experts
from difftest.cases.wrapping import Dispatch
from workers.training.expert_rows import Route, Routed, activated
from workers.training.layers import Plan
from workers.training.modules import Extras, Reader


class Shared(nn.Module):
    """The expert that every row goes to."""

    def __init__(self, layer: routed_experts.RoutedExperts, hidden: int) -> None:
        super().__init__()
        self.layer = layer
        self.rising = nn.Parameter(torch.zeros(layer.width, hidden))
        self.falling = nn.Parameter(torch.zeros(hidden, layer.width))

    def forward(self, rows: Tensor) -> Tensor:
        """(rows, width) to the same."""
        return activated(self.layer.function, rows @ self.rising) @ self.falling


class ExpertMatrices(nn.Module):
    """The matrices of the experts, of which a rank may hold some: a module that wrappers can take apart."""

    def __init__(self, layer: routed_experts.RoutedExperts, route: Route, dispatch: Dispatch) -> None:
        super().__init__()
        self.layer, self.route, self.dispatch = layer, route, dispatch
        self.rising = nn.Parameter(torch.zeros(layer.experts, layer.width, layer.hidden))
        self.falling = nn.Parameter(torch.zeros(layer.experts, layer.hidden, layer.width))

    def forward(self, rows: Tensor, chosen: Tensor, gates: Tensor) -> Tensor:
        """(rows, width) to the same, for experts and gates (rows, top)."""
        return self.route(
            Routed(
                rows=rows,
                chosen=chosen,
                gates=gates,
                rising=self.rising,
                falling=self.falling,
                layer=self.layer,
                dispatch=self.dispatch,
            )
        )


class RoutedExperts(Reader):
    """Experts, of which the batch names those of each row."""

    def __init__(
        self, layer: routed_experts.RoutedExperts, path: str, route: Route, dispatch: Dispatch
    ) -> None:
        super().__init__()
        self.mask = f"mask {path}"
        self.routed = ExpertMatrices(layer, route, dispatch)
        self.router = nn.Parameter(torch.zeros(layer.experts, layer.width)) if layer.router else None
        self.shared = Shared(layer, layer.shared) if layer.shared else None

    def forward(self, inputs: Tensor, extras: Extras) -> Tensor:
        """(batch, [sequence,] width) to the same."""
        rows, chosen = inputs.flatten(0, -2), extras[self.mask].flatten(0, -2)
        results: Tensor = self.routed(rows, chosen, self._gates(rows, chosen))
        if self.shared is not None:
            results = results + self.shared(rows)
        return results.reshape(inputs.shape)

    def _gates(self, rows: Tensor, chosen: Tensor) -> Tensor:
        """Each chosen expert's part of a softmax over the scores of all, in float32 at least; or ones."""
        if self.router is None:
            return torch.ones_like(chosen)
        scores = rows @ self.router.t()
        scores = scores if scores.dtype == torch.float64 else scores.float()
        gates: Tensor = scores.softmax(-1).gather(-1, chosen.long()).to(rows.dtype)
        return gates


def module(layer: routed_experts.RoutedExperts, path: str, plan: Plan) -> nn.Module:
    """With the backend's `route`."""
    return RoutedExperts(layer, path, plan.operators.route, plan.dispatch)

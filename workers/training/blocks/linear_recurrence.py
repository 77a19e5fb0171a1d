"""A gated linear recurrence by `scan` or by `associative_scan`."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, _higher_order_ops, nn

from workers.training.blocks import Sizes

Rows: TypeAlias = tuple[Tensor, Tensor]
"""By how much a state decays, and what is added to it."""


class LinearRecurrence(nn.Module):
    """A state decays by a gate that depends on the position, and takes in the input; one after another."""

    def __init__(self, width: int, layers: int, function: str, reverse: bool) -> None:  # noqa: FBT001
        super().__init__()
        self.function = function
        self.reverse = reverse
        self.gates = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, sequence, width) to the same."""
        for gate in self.gates:
            decays = gate(inputs).sigmoid()
            inputs = self.states(decays.transpose(0, 1), inputs.transpose(0, 1)).transpose(0, 1)
        return inputs

    def states(self, decays: Tensor, rows: Tensor) -> Tensor:
        """Those of all positions, which are the first dim, as are those of `decays` and `rows`."""
        # their names are read now: the reference puts loops in their place
        if self.function == "scan":
            start = torch.zeros_like(rows[0])
            _, states = _higher_order_ops.scan(_step, start, (decays, rows), dim=0, reverse=self.reverse)
        else:
            mode = "pointwise" if self.function == "pointwise" else "generic"
            _, states = _higher_order_ops.associative_scan(
                _joined, (decays, rows), dim=0, reverse=self.reverse, combine_mode=mode
            )
        result: Tensor = states
        return result


def _step(state: Tensor, row: Rows) -> tuple[Tensor, Tensor]:
    """The next state, twice, as `scan` wants no alias."""
    following = row[0] * state + row[1]
    return following, following.clone()


def _joined(left: Rows, right: Rows) -> Rows:
    """Two steps as one."""
    return left[0] * right[0], right[0] * left[1] + right[1]


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The recurrence."""
    return LinearRecurrence(**arguments)

"""The gated feed-forward layer."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from workers.training.blocks import Sizes


class SwiGLU(nn.Module):
    """`down(silu(gate(x)) * up(x))` with matrices of their own."""

    def __init__(self, width: int, hidden: int, *, bias: bool) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=bias)
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, width) to the same."""
        result: Tensor = self.down(functional.silu(self.gate(inputs)) * self.up(inputs))
        return result


class PackedSwiGLU(nn.Module):
    """The same with gate and up in one matrix, whose result is split."""

    def __init__(self, width: int, hidden: int, *, bias: bool) -> None:
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, width) to the same."""
        gate, up = self.gate_up(inputs).chunk(2, dim=-1)
        result: Tensor = self.down(functional.silu(gate) * up)
        return result


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The layer with or without packing."""
    form = PackedSwiGLU if arguments["packed"] else SwiGLU
    return form(arguments["width"], arguments["hidden"], bias=arguments["bias"])

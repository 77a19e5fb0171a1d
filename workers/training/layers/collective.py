"""A collective, by the backend's own operator."""

import torch
from msgspec import UNSET
from torch import Tensor, nn

from difftest.cases.layers import collective
from workers.training.layers import Plan
from workers.training.operators import Operators


class Collective(nn.Module):
    """One collective on the model's input; `integers`: that input as int32."""

    def __init__(self, spec: collective.Collective, operators: Operators, *, integers: bool) -> None:
        super().__init__()
        self.spec, self.collect, self.integers = spec, operators.collect, integers

    def forward(self, inputs: Tensor) -> Tensor:
        """(rows, width) to (rows, outputs)."""
        if self.integers:
            return self.collect(inputs.to(torch.int32), self.spec).to(inputs.dtype)
        return self.collect(inputs, self.spec)


def module(layer: collective.Collective, path: str, plan: Plan) -> nn.Module:
    """With the backend's `collect`."""
    whole = plan.spelling.integers and layer.learned is UNSET  # whole numbers have no gradient
    return Collective(layer, plan.operators, integers=whole)

"""A collective, by the backend's own operator."""

from torch import Tensor, nn

from difftest.cases.layers import collective
from workers.training.layers import Plan
from workers.training.operators import Operators


class Collective(nn.Module):
    """One collective on the model's input."""

    def __init__(self, spec: collective.Collective, operators: Operators) -> None:
        super().__init__()
        self.spec, self.collect = spec, operators.collect

    def forward(self, inputs: Tensor) -> Tensor:
        """(rows, width) to (rows, outputs)."""
        return self.collect(inputs, self.spec)


def module(layer: collective.Collective, path: str, plan: Plan) -> nn.Module:
    """With the backend's `collect`."""
    return Collective(layer, plan.operators)

"""A change of placements, by the backend's own operator."""

from torch import Tensor, nn

from difftest.cases.layers import redistribute
from workers.training.layers import Plan
from workers.training.operators import Operators


class Redistribute(nn.Module):
    """The identity by way of other placements."""

    def __init__(self, spec: redistribute.Redistribute, operators: Operators) -> None:
        super().__init__()
        self.spec, self.move = spec, operators.move

    def forward(self, inputs: Tensor) -> Tensor:
        """Same in as out."""
        return self.move(inputs, self.spec)


def module(layer: redistribute.Redistribute, path: str, plan: Plan) -> nn.Module:
    """With the backend's `move`."""
    return Redistribute(layer, plan.operators)

"""The linear layer in torch."""

from torch import nn

from difftest.cases.layers.linear import Linear
from workers.training.layers import Plan


def module(layer: Linear, path: str, plan: Plan) -> nn.Module:
    """Torch's own; a tied weight is shared after all modules are built."""
    return nn.Linear(layer.inputs, layer.outputs, bias=layer.bias)

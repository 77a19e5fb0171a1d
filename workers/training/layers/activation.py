"""Activation functions in torch."""

from torch import nn

from difftest.cases.layers.activation import Activation
from workers.training.layers import Plan

MODULES: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}


def module(layer: Activation, path: str, plan: Plan) -> nn.Module:
    """Torch's own."""
    return MODULES[layer.function]()

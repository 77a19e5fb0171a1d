"""Layer normalisation in torch."""

from torch import nn

from difftest.cases.layers.layer_norm import LayerNorm
from workers.training.layers import Plan


def module(layer: LayerNorm, path: str, plan: Plan) -> nn.Module:
    """Torch's own, with its own epsilon."""
    return nn.LayerNorm(layer.width)

"""Normalisation by the root mean square in torch."""

from torch import nn

from difftest.cases.layers.rms_norm import RMSNorm
from workers.training.layers import Plan


def module(layer: RMSNorm, path: str, plan: Plan) -> nn.Module:
    """Torch's own; its default epsilon depends on the dtype, so one is given."""
    return nn.RMSNorm(layer.width, eps=1e-6)

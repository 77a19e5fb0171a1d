"""The embedding in torch."""

from torch import nn

from difftest.cases.layers.embedding import Embedding
from workers.training.layers import Plan


def module(layer: Embedding, path: str, plan: Plan) -> nn.Module:
    """Torch's own."""
    return nn.Embedding(layer.vocabulary, layer.width)

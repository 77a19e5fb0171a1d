"""The embedding in torch."""

from torch import nn

from difftest.cases.layers.embedding import Embedding
from workers.training.layers import Plan


def module(layer: Embedding, path: str, plan: Plan) -> nn.Module:  # noqa: ARG001  its own data is enough
    """Torch's own."""
    return nn.Embedding(layer.vocabulary, layer.width)

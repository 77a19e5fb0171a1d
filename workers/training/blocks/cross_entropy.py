"""Torch's cross entropy with its options."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from workers.training.blocks import Sizes, widened

IGNORED = 0
"""The class whose targets do not count."""


class CrossEntropy(nn.Module):
    """The loss of every position of a table's logits, or that of all positions."""

    weights: Tensor | None

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        super().__init__()
        self.classes, self.smoothing = arguments["classes"], arguments["smoothing"]
        self.reduction = arguments["reduction"]
        self.ignored = IGNORED if arguments["ignored"] else -100
        self.logits = nn.Embedding(arguments["vocabulary"], self.classes)
        weights = torch.arange(1, self.classes + 1, dtype=torch.float64) / 4
        self.register_buffer("weights", weights if arguments["weighted"] else None)

    def forward(self, ids: Tensor) -> Tensor:
        """(batch, sequence) to (batch, sequence, 1)."""
        logits = widened(self.logits(ids))
        losses = functional.cross_entropy(
            logits.flatten(0, 1),
            ((ids * 3 + 1) % self.classes).flatten(),
            weight=None if self.weights is None else self.weights.to(logits.dtype),
            ignore_index=self.ignored,
            reduction=self.reduction,
            label_smoothing=self.smoothing,
        )
        each = losses.unflatten(0, tuple(ids.shape)) if losses.dim() else losses.expand(ids.shape)
        return each.unsqueeze(-1).to(self.logits.weight.dtype)


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The loss."""
    return CrossEntropy(arguments)

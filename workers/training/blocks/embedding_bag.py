"""Bags of embeddings with offsets."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from workers.training.blocks import Sizes


class Bags(nn.Module):
    """`nn.EmbeddingBag` over all ids in a row; its bags are as many as the ids."""

    def __init__(self, vocabulary: int, width: int, mode: str) -> None:
        super().__init__()
        self.weighted = mode == "weighted"
        self.bags = nn.EmbeddingBag(vocabulary, width, mode="sum" if self.weighted else mode)

    def forward(self, ids: Tensor) -> Tensor:
        """(batch, sequence) to (batch, sequence, width).

        Bags 2 i and 2 i + 1 of a row both begin at its id 2 i: the first is empty, the second has two ids.
        The last of an odd number has one.
        """
        places = torch.arange(ids.numel(), device=ids.device)
        offsets = places - places % ids.shape[1] % 2
        weights = None
        if self.weighted:
            weights = ((ids.flatten() % 5 + 1) / 4).to(self.bags.weight.dtype)
        summed: Tensor = self.bags(ids.flatten(), offsets, per_sample_weights=weights)
        rows: Tensor = summed.unflatten(0, tuple(ids.shape))
        return rows


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The bags."""
    return Bags(**arguments)

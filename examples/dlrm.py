"""A small DLRM: bags of embeddings, dense features, products of all pairs, a click to predict."""

import torch
from torch import Tensor, nn
from torch.nn import functional

TABLES, ENTRIES, BAG, WIDTH, DENSE = 3, 20, 4, 8, 6


class Recommender(nn.Module):
    """Dense features (rows, DENSE) and ids (rows, TABLES, BAG) to logits (rows,)."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(ENTRIES, WIDTH, mode="sum") for _ in range(TABLES))
        self.bottom = nn.Sequential(nn.Linear(DENSE, WIDTH), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(WIDTH + (TABLES + 1) ** 2, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        """The logit of a click."""
        own = self.bottom(dense)
        all_features = torch.stack([own, *(table(ids[:, n]) for n, table in enumerate(self.tables))], 1)
        products = (all_features @ all_features.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([own, products], 1)).squeeze(-1)


def build(seed: int) -> nn.Module:
    """The model."""
    return Recommender()


def batch(generator: torch.Generator, rows: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Features, and whether there was a click."""
    dense = torch.randn(rows, DENSE, generator=generator)
    ids = torch.randint(0, ENTRIES, (rows, TABLES, BAG), generator=generator)
    return (dense, ids), torch.randint(0, 2, (rows,), generator=generator).float()


def loss(logits: Tensor, clicks: Tensor) -> Tensor:
    """Binary cross-entropy."""
    return functional.binary_cross_entropy_with_logits(logits, clicks)

"""Attention from primitive operators."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from difftest.cases.layers import attention
from workers.training.layers import Plan
from workers.training.modules import Extras, Reader, by_heads


class Attention(Reader):
    """Softmax attention written from primitive operators, which every backend can partition.

    The number of heads follows from the projections' widths, so that a rank which holds some of the heads
    computes just those.
    """

    def __init__(self, spec: attention.Attention, sequence: int, *, unequal: bool) -> None:
        super().__init__()
        kv = spec.kv_heads * spec.head_dim
        self.head_dim, self.causal, self.segments = spec.head_dim, spec.causal, spec.segments
        self.group, self.unequal = spec.heads // spec.kv_heads, unequal
        self.q = nn.Linear(spec.width, spec.width, bias=False)
        self.k = nn.Linear(spec.width, kv, bias=False)
        self.v = nn.Linear(spec.width, kv, bias=False)
        self.o = nn.Linear(spec.width, spec.width, bias=False)
        self.register_buffer(
            "future", torch.ones(sequence, sequence, dtype=torch.bool).triu(1), persistent=False
        )

    def forward(self, inputs: Tensor, extras: Extras) -> Tensor:
        """(batch, sequence, width) to the same; reads `segments`, (batch, sequence) ids."""
        query = by_heads(self.q(inputs), self.head_dim)
        key = by_heads(self.k(inputs), self.head_dim, self.group)
        value = by_heads(self.v(inputs), self.head_dim, self.group)
        scores = query @ key.transpose(-1, -2) * self.head_dim**-0.5
        if self.causal:
            scores = scores.masked_fill(cast("Tensor", self.future), float("-inf"))
        if self.segments:
            segments = extras["segments"]
            queries, keys = segments.unsqueeze(-1), segments.unsqueeze(-2)
            # DTensor has a rule for ==, none for !=.
            other = queries != keys if self.unequal else (queries == keys).logical_not()
            scores = scores.masked_fill(other.unsqueeze(1), float("-inf"))
        mixed = functional.softmax(scores, dim=-1) @ value
        return cast("Tensor", self.o(mixed.transpose(1, 2).flatten(2)))


def module(layer: attention.Attention, path: str, plan: Plan) -> nn.Module:
    """Its mask of the future is as long as the model's sequence."""
    return Attention(layer, plan.sequence, unequal=plan.spelling.unequal)

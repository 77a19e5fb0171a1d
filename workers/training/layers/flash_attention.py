"""Attention by the backend's own kernel."""

import torch
from torch import Tensor, nn

from difftest.cases.layers import flash_attention
from workers.training.layers import Plan
from workers.training.modules import Extras, Reader, by_heads
from workers.training.operators import Operators, Scores


class FlashAttention(Reader):
    """Attention by the backend's own kernel.

    The number of heads follows from the projections' widths, so a rank may hold some of the heads.
    """

    def __init__(self, spec: flash_attention.FlashAttention, operators: Operators, *, unequal: bool) -> None:
        super().__init__()
        inner, shared = spec.heads * spec.head_dim, spec.key_heads * spec.head_dim
        self.spec, self.attend, self.unequal = spec, operators.attend, unequal
        self.group = 1 if operators.grouped else spec.heads // spec.key_heads
        self.q, self.k, self.v = (
            nn.Linear(spec.width, width, bias=False) for width in (inner, shared, shared)
        )
        self.o = nn.Linear(inner, spec.width, bias=False)
        self.ab = nn.Parameter(torch.empty(spec.heads, spec.length, spec.keys)) if spec.bias else None

    def forward(self, inputs: Tensor, extras: Extras) -> Tensor:
        """(batch, length, width) to the same; keys and values come from the first `keys` positions."""
        with_keys = self._with_keys(inputs)
        query = by_heads(self.q(inputs), self.spec.head_dim)
        key, value = (
            by_heads(project(with_keys), self.spec.head_dim, self.group) for project in (self.k, self.v)
        )
        mixed = self.attend(query, key, value, self._scores(extras))
        result: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return result

    def _scores(self, extras: Extras) -> Scores:
        spec = self.spec
        ids = extras["segments"] if spec.segments else None
        return Scores(
            scale=spec.head_dim**-0.5 if spec.scale is None else spec.scale,
            causal=spec.causal,
            segments=None if ids is None else (ids, self._with_keys(ids)),
            ab=self.ab,
            unequal=self.unequal,
        )

    def _with_keys(self, sequence: Tensor) -> Tensor:
        """The positions that have keys.

        If all have, nothing is sliced: DTensor has no rule for a slice that takes everything.
        """
        return sequence if self.spec.keys == self.spec.length else sequence[:, : self.spec.keys]


def module(layer: flash_attention.FlashAttention, path: str, plan: Plan) -> nn.Module:
    """With the backend's `attend`."""
    return FlashAttention(layer, plan.operators, unequal=plan.spelling.unequal)

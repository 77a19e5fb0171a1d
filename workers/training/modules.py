"""The modules that ask a backend's `Operators` for what torch.nn has no layer for."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from difftest.cases import layers
from workers.training.operators import Operators, Scores


def by_heads(projected: Tensor, head_dim: int, group: int = 1) -> Tensor:
    """(batch, positions, heads * head_dim) to (batch, heads * group, positions, head_dim), each head `group` times in a row."""
    heads: Tensor = projected.unflatten(-1, (-1, head_dim)).transpose(1, 2)
    return heads if group == 1 else heads.repeat_interleave(group, dim=1)


class FlashAttention(nn.Module):
    """Attention by the backend's own kernel; head counts are read off the projections, so a rank may hold some of the heads."""

    def __init__(self, spec: layers.FlashAttention, operators: Operators) -> None:
        super().__init__()
        inner, shared = spec.heads * spec.head_dim, spec.key_heads * spec.head_dim
        self.spec, self.attend = spec, operators.attend
        self.group = 1 if operators.grouped else spec.heads // spec.key_heads
        self.q, self.k, self.v = (
            nn.Linear(spec.width, width, bias=False) for width in (inner, shared, shared)
        )
        self.o = nn.Linear(inner, spec.width, bias=False)
        self.ab = nn.Parameter(torch.empty(spec.heads, spec.length, spec.keys)) if spec.bias else None

    def forward(self, inputs: Tensor, extras: Mapping[str, Tensor]) -> Tensor:
        """(batch, length, width) to the same; keys and values come from the first `keys` positions."""
        known = self._known(inputs)
        query = by_heads(self.q(inputs), self.spec.head_dim)
        key, value = (
            by_heads(project(known), self.spec.head_dim, self.group) for project in (self.k, self.v)
        )
        mixed = self.attend(query, key, value, self._scores(extras))
        result: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return result

    def _scores(self, extras: Mapping[str, Tensor]) -> Scores:
        spec = self.spec
        ids = extras["segments"] if spec.segments else None
        return Scores(
            scale=spec.head_dim**-0.5 if spec.scale is None else spec.scale,
            causal=spec.causal,
            segments=None if ids is None else (ids, self._known(ids)),
            ab=self.ab,
        )

    def _known(self, sequence: Tensor) -> Tensor:
        """The positions that have keys; where all do, no slice is asked for: DTensor has no rule for one that takes everything."""
        return sequence if self.spec.keys == self.spec.length else sequence[:, : self.spec.keys]


class Collective(nn.Module):
    """One collective on the model's input."""

    def __init__(self, spec: layers.Collective, operators: Operators) -> None:
        super().__init__()
        self.spec, self.collect = spec, operators.collect

    def forward(self, inputs: Tensor) -> Tensor:
        """(rows, width) to (rows, outputs)."""
        return self.collect(inputs, self.spec)


class Redistribute(nn.Module):
    """The identity by way of other placements."""

    def __init__(self, spec: layers.Redistribute, operators: Operators) -> None:
        super().__init__()
        self.spec, self.move = spec, operators.move

    def forward(self, inputs: Tensor) -> Tensor:
        """Same in as out."""
        return self.move(inputs, self.spec)


MODULES: Mapping[type, Callable[..., nn.Module]] = {
    layers.FlashAttention: FlashAttention,
    layers.Collective: Collective,
    layers.Redistribute: Redistribute,
}
"""Each made of its layer and the backend's operators."""

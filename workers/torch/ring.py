"""Attention of a rank's queries to the keys of all ranks along `cp`, which have pieces of each sequence."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.device_mesh import DeviceMesh

    from workers.torch.flash import KernelAttention
    from workers.training.operators import Scores

AXIS = "cp"
SEQUENCE = 1
"""The dim of a batch that is the sequence; of queries, keys and values it is the next."""


@dataclass(frozen=True, slots=True)
class GatheredKeys:
    """Gathers keys and values along `ring`, and attends to them by `attention`."""

    ring: "DeviceMesh"
    attention: "KernelAttention"

    def attend(self, query: "Tensor", key: "Tensor", value: "Tensor", scores: "Scores") -> "Tensor":
        """`workers.training.operators.attend` of a piece of the sequence, (batch, heads, piece, head_dim)."""
        from torch.distributed._functional_collectives import all_gather_tensor_autograd

        dim = SEQUENCE + 1
        keys, values = (
            all_gather_tensor_autograd(tensor.contiguous(), dim, self.ring) for tensor in (key, value)
        )
        return self.attention.masked(query, keys, values, scores, self._visible(query, scores))

    def _visible(self, query: "Tensor", scores: "Scores") -> "Tensor | None":
        """The keys that the piece's queries attend to, or addends of their scores; None for all."""
        import torch
        from torch.distributed._functional_collectives import all_gather_tensor

        piece, device = query.shape[-2], query.device
        first, length = first_position(self.ring, piece), self.ring.size() * piece
        visible = None
        if scores.segments is not None:
            own, _ = scores.segments
            others = all_gather_tensor(own.contiguous(), SEQUENCE, self.ring)
            visible = (own.unsqueeze(-1) == others.unsqueeze(-2)).unsqueeze(1)
        if scores.causal:
            past = torch.ones(piece, length, dtype=torch.bool, device=device).tril(first)
            visible = past if visible is None else visible & past
        if scores.ab is None:
            return visible
        addends = scores.ab[:, first : first + piece]
        return addends if visible is None else addends.masked_fill(visible.logical_not(), float("-inf"))


def first_position(ring: "DeviceMesh", piece: int) -> int:
    """Where in the sequence the rank's piece of a length begins."""
    return ring.get_local_rank() * piece

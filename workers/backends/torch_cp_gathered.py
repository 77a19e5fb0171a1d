"""Context parallel by gathering: each rank has a piece of every sequence, and attends to all keys and values.

Keys and values are gathered over `cp` by a collective that autograd differentiates, as for Llama 3
(arXiv:2407.21783, section 3.3.2).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layers.flash_attention import FlashAttention
from workers import sides
from workers.torch import context, devices, process_groups
from workers.training.refusals import for_modules_only

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.device_mesh import DeviceMesh

    from workers.torch.flash import Attention
    from workers.training.operators import Scores
    from workers.training.session import Session

TITLE = "context parallel by all-gather"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = sides.TORCH
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why pieces of the sequence do not compute the case as its layout says, or None."""
    return context.refusal(case, pieces=1, attends=_cross)


def _cross(layer: FlashAttention) -> str | None:
    return None if layer.keys == layer.length else "gathers the keys of all positions; here some have none"


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins the process group and wraps the module over all ranks."""
    from workers.torch.flash import Attention

    with process_groups.joined(case, rank, rendezvous, kind=kind) as member:
        joined = context.wrapped(member)
        attend = _Gathering(member.mesh[context.AXIS], Attention(case, joined.environment)).attend
        operators = replace(joined.operators, attend=attend)
        yield replace(joined, operators=operators) if case.world_size > 1 else joined


@dataclass(frozen=True, slots=True)
class _Gathering:
    """Attention of the rank's queries to the keys of all ranks along `ring`."""

    ring: "DeviceMesh"
    attention: "Attention"

    def attend(self, query: "Tensor", key: "Tensor", value: "Tensor", scores: "Scores") -> "Tensor":
        """`workers.training.operators.attend` of a piece of the sequence, (batch, heads, piece, head_dim)."""
        from torch.distributed._functional_collectives import all_gather_tensor_autograd

        dim = context.SEQUENCE + 1
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
            others = all_gather_tensor(own.contiguous(), context.SEQUENCE, self.ring)
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

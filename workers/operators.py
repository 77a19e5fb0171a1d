"""What torch.nn has no layer for and every side does its own way: flash attention, collectives, moving between placements.

The functions here are what the operators *mean*, on whole tensors: the oracle uses them as they are. A backend replaces those that its
framework has a door of its own for, in its session's `Operators`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from difftest import layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What shapes attention's scores beside queries and keys.

    `scale` multiplies them, then `ab` (heads, length, keys) is added. `segments` are the ids of queries (batch, length) and of keys
    (batch, keys).
    """

    scale: float
    causal: bool
    segments: tuple[Tensor, Tensor] | None = None
    ab: Tensor | None = None


def attend(query: Tensor, key: Tensor, value: Tensor, scores: Scores) -> Tensor:
    """Attention from primitive operators: (batch, heads, length, head_dim) of queries, (batch, heads, keys, head_dim) of the others.

    Causal: query i sees keys up to i. A query without any key of its segment sees nothing and gives zeros, as flash kernels do.
    """
    weights = query @ key.transpose(-1, -2) * scores.scale
    if scores.ab is not None:
        weights = weights + scores.ab
    hidden = forbidden(scores, query.shape[-2], key.shape[-2])
    if hidden is None:
        return torch.softmax(weights, dim=-1) @ value
    weights = torch.softmax(weights.masked_fill(hidden, torch.finfo(weights.dtype).min), dim=-1)
    return weights.masked_fill(hidden, 0.0) @ value


def forbidden(scores: Scores, length: int, keys: int) -> Tensor | None:
    """True where a query must not see a key, (batch or 1, 1, length, keys); None when all are seen."""
    hidden = None
    if scores.causal:
        hidden = torch.ones(length, keys, dtype=torch.bool).triu(1)[None, None]
    if scores.segments is not None:
        queries, others = scores.segments
        foreign = (queries.unsqueeze(-1) != others.unsqueeze(-2)).unsqueeze(1)
        hidden = foreign if hidden is None else foreign | hidden.to(foreign.device)
    return hidden


def collect(tensor: Tensor, spec: layers.Collective) -> Tensor:
    """A collective as a function of the whole tensor: its rows are the ranks' rows in the mesh's order."""
    blocks = tensor.reshape(*spec.mesh, -1, tensor.shape[-1])
    group = blocks.movedim(spec.axis, 0)  # (rank in the group, other axes ..., rows, width)
    done = _collected(group, spec).movedim(0, spec.axis) * spec.factor
    return done.reshape(tensor.shape[0], spec.outputs)


def _collected(group: Tensor, spec: layers.Collective) -> Tensor:
    ranks = spec.ranks
    match spec.operation:
        case "all_reduce":
            return reduced(group, spec).expand_as(group)
        case "reduce_scatter":
            return torch.stack([part.squeeze(0) for part in reduced(group, spec).chunk(ranks, -1)])
        case "all_gather":
            return torch.cat(list(group.unbind(0)), -1).expand(ranks, *group.shape[1:-1], spec.outputs)
        case "all_to_all":
            return torch.stack([torch.cat([part.chunk(ranks, -1)[rank] for part in group.unbind(0)], -1) for rank in range(ranks)])
        case "permute":
            return group.roll(1, 0)
        case "broadcast":
            return group[:1].expand_as(group)


def reduced(group: Tensor, spec: layers.Collective) -> Tensor:
    """The group's tensors as one, (1, ...)."""
    match spec.reduction:
        case "sum":
            return group.sum(0, keepdim=True)
        case "max":
            return group.amax(0, keepdim=True)
        case "min":
            return group.amin(0, keepdim=True)


def move(tensor: Tensor, _spec: layers.Redistribute) -> Tensor:
    """The identity: one device has no placements."""
    return tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """How a backend does each of them."""

    attend: Callable[[Tensor, Tensor, Tensor, Scores], Tensor] = attend
    collect: Callable[[Tensor, layers.Collective], Tensor] = collect
    move: Callable[[Tensor, layers.Redistribute], Tensor] = move

"""Operators that torch.nn has no layer for and that each side implements in its own way.

They are flash attention, collectives, moves to other placements, the way of rows to experts, and
recomputation of a block.

The functions here define the operators on whole tensors, and the oracle uses them, but for the rows of
experts, which it takes one by one (`workers.training.expert_rows`). A backend whose framework
has an operator of its own puts that into its session's `Operators`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from difftest.cases.layers.collective import Collective
from difftest.cases.layers.operator import Memory
from difftest.cases.layers.redistribute import Redistribute
from workers.training.expert_rows import Route, at_once
from workers.training.memory import laid_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The parameters of attention's scores, beside queries and keys.

    `scale` multiplies them, then `ab` (heads, length, keys) is added (SDPA's order; Pallas adds first).
    `segments` are the ids of queries (batch, length) and of keys (batch, keys). `unequal`: they are compared
    by `!=`.
    """

    scale: float
    causal: bool
    segments: tuple[Tensor, Tensor] | None = None
    ab: Tensor | None = None
    unequal: bool = False


def attend(query: Tensor, key: Tensor, value: Tensor, scores: Scores) -> Tensor:
    """Attention from few operators.

    Queries are (batch, heads, length, head_dim), keys and values (batch, heads, keys, head_dim).

    Causal: query i attends to keys up to i, whatever their number, as in SDPA and in Pallas. A query without
    any key of its segment gives zeros, as in SDPA; Pallas gives the mean of the values there, so the
    generators make no such case.
    """
    hidden = forbidden(scores, query, key)
    weights = _weights(query, key, scores, hidden)
    with torch.no_grad():  # in another order, because kernels sum in another order in their backward pass
        again = _weights(query.flip(-1), key.flip(-1), scores, hidden)
    return cast("Tensor", _Mixed.apply(weights, again, value, hidden))  # type: ignore[no-untyped-call]


def _weights(query: Tensor, key: Tensor, scores: Scores, hidden: Tensor | None) -> Tensor:
    """The scores, before the softmax."""
    weights = query @ key.transpose(-1, -2) * scores.scale
    if scores.ab is not None:
        weights = weights + scores.ab
    return weights if hidden is None else weights.masked_fill(hidden, torch.finfo(weights.dtype).min)


class _Mixed(torch.autograd.Function):
    """`softmax(weights) @ value`, differentiated as flash kernels do it, so that it rounds as they do.

    Kernels differ from the textbook in two ways. They take the softmax's row sums from the output,
    `sum(gradient * output)`. If the output has a half type, all weights of a row then share one error, which
    the gradient of the queries adds up, while the textbook's sums cancel. And of the softmax they keep only
    each row's log-sum-exp, in float32 at least, and compute the weights `again`. Where scores are large, the
    rounding of either moves weights that are nearly 1; in the textbook these stay where they are.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401  torch's own type is private
        weights: Tensor,
        again: Tensor,
        value: Tensor,
        hidden: Tensor | None,
    ) -> Tensor:
        mixed = _without_hidden(torch.softmax(weights, dim=-1), hidden) @ value
        ctx.save_for_backward(again, torch.logsumexp(_wide(weights), -1, keepdim=True), value, mixed, hidden)
        return mixed

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401  torch's own type is private
        *gradients: Tensor,
    ) -> tuple[Tensor, None, Tensor, None]:
        (gradient,) = gradients
        again, normalizer, value, mixed, hidden = ctx.saved_tensors
        visible = _wide(again) if hidden is None else torch.where(hidden, normalizer, _wide(again))
        shares = _without_hidden(torch.exp(visible - normalizer).to(again.dtype), hidden)
        own = gradient @ value.transpose(-1, -2)
        common = (gradient * mixed).sum(-1, keepdim=True)
        return shares * (own - common), None, shares.transpose(-1, -2) @ gradient, None


def _without_hidden(shares: Tensor, hidden: Tensor | None) -> Tensor:
    return shares if hidden is None else shares.masked_fill(hidden, 0.0)


def _wide(weights: Tensor) -> Tensor:
    return weights if weights.dtype == torch.float64 else weights.float()


def forbidden(scores: Scores, query: Tensor, key: Tensor) -> Tensor | None:
    """True where a query must not attend to a key, (..., length, keys); None if it may attend to all."""
    foreign = None
    if scores.segments is not None:
        queries, others = scores.segments
        left, right = queries.unsqueeze(-1), others.unsqueeze(-2)
        # DTensor has a rule for ==, none for !=.
        foreign = (left != right if scores.unequal else (left == right).logical_not()).unsqueeze(1)
    if not scores.causal:
        return foreign
    # The mask must be a DTensor beside DTensors: operators do not mix them with plain tensors.
    like = foreign if foreign is not None else scores.ab
    pairs = torch.empty(query.shape[-2], key.shape[-2], device=query.device) if like is None else like
    future = torch.ones_like(pairs, dtype=torch.bool).triu(1)
    return future if foreign is None else foreign | future


def collect(tensor: Tensor, spec: Collective) -> Tensor:
    """A collective as a function of the whole tensor: its rows are the ranks' rows in the mesh's order."""
    blocks = tensor.reshape(*spec.mesh, -1, tensor.shape[-1])
    group = blocks.movedim(spec.axis, 0)  # (rank in the group, other axes ..., rows, width)
    done = _collected(group, spec).movedim(0, spec.axis) * spec.factor
    return done.reshape(tensor.shape[0], spec.outputs)


def _collected(group: Tensor, spec: Collective) -> Tensor:  # noqa: PLR0911  one for each operation
    ranks = spec.ranks
    match spec.operation:
        case "all_reduce":
            return reduced(group, spec).expand_as(group)
        case "reduce_scatter":
            return torch.stack([part.squeeze(0) for part in reduced(group, spec).chunk(ranks, -1)])
        case "all_gather":
            return torch.cat(list(group.unbind(0)), -1).expand(ranks, *group.shape[1:-1], spec.outputs)
        case "all_to_all":
            sent = [part.split(spec.sent(rank), -1) for rank, part in enumerate(group.unbind(0))]
            return torch.stack([torch.cat(parts, -1) for parts in zip(*sent, strict=True)])
        case "gather":
            whole = torch.cat(list(group.unbind(0)), -1).unsqueeze(0)
            return torch.cat([whole, torch.zeros_like(whole.expand(ranks - 1, *whole.shape[1:]))])
        case "permute":
            return group.roll(1, 0)
        case "reduce":
            return torch.cat([reduced(group, spec), torch.zeros_like(group[1:])])
        case "scatter":
            return torch.stack(group[0].chunk(ranks, -1))
        case "broadcast":
            return group[:1].expand_as(group)


def reduced(group: Tensor, spec: Collective) -> Tensor:
    """The group's tensors as one, (1, ...)."""
    match spec.reduction:
        case "sum":
            return group.sum(0, keepdim=True)
        case "max":
            return group.amax(0, keepdim=True)
        case "min":
            return group.amin(0, keepdim=True)
        case "avg":
            return group.mean(0, keepdim=True)


def move(tensor: Tensor, _spec: Redistribute) -> Tensor:
    """The identity: one device has no placements."""
    return tensor


def recompute(
    block: Callable[..., Tensor],
    *inputs: Any,  # noqa: ANN401  tensors, and mappings of them
) -> Tensor:
    """`block(*inputs)`, computed again in the backward pass instead of kept.

    Nothing in a block draws random numbers.
    """
    return cast("Tensor", checkpoint(block, *inputs, use_reentrant=False, preserve_rng_state=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """How a backend implements each operator.

    `grouped`: its `attend` takes fewer heads of keys and values than of queries.
    """

    attend: Callable[[Tensor, Tensor, Tensor, Scores], Tensor] = attend
    collect: Callable[[Tensor, Collective], Tensor] = collect
    move: Callable[[Tensor, Redistribute], Tensor] = move
    recompute: Callable[..., Tensor] = recompute
    lay_out: Callable[[Tensor, Memory], Tensor] = laid_out
    route: Route = at_once
    grouped: bool = False

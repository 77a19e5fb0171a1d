"""Planted faults of attention: masks, segment ids, scale and softmax."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from difftest.cases.case import Case
from difftest.cases.layers import attention, walk
from workers.faults import BACKEND, EVERYWHERE, SHARDING, planted
from workers.training.layers.attention import Attention
from workers.training.session import Session

SEGMENTS_FED = 2
"""The place of segment ids among the tensors fed for a part: inputs, targets, segment ids, the rest."""


def _attentions(case: Case) -> list[attention.Attention]:
    return [layer for _, layer in walk(case.model.layers) if isinstance(layer, attention.Attention)]


def _last_is_causal(case: Case) -> bool:
    attentions = _attentions(case)
    return bool(attentions) and attentions[-1].causal


def _packed(case: Case) -> bool:
    return case.model.segments and len(case.layout.batch_axes) > 0 and case.world_size > 1


def _with_changed_attention(session: Session, change: Callable[[list[Attention]], None]) -> Session:
    """The session that changes the attention modules before it places them."""

    def place(module: nn.Module) -> nn.Module:
        change([inner for inner in module.modules() if isinstance(inner, Attention)])
        return session.place(module)

    return replace(session, place=place)


def _with_changed_segments(session: Session, case: Case, feed_ids: Callable[[Tensor], Tensor]) -> Session:
    """The session that feeds segment ids by `feed_ids` instead."""
    fed, per_part = itertools.count(), 2 + case.model.segments + len(case.model.masked)

    def feed(tensor: Tensor) -> Tensor:
        return feed_ids(tensor) if next(fed) % per_part == SEGMENTS_FED else session.feed(tensor)

    return replace(session, feed=feed)


@planted(
    about="the causal mask of the last block lets one future position through",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=_last_is_causal,
)
def mask_off_by_one(session: Session, _case: Case, _rank: int) -> Session:
    """The mask starts at the second diagonal above the main one, not at the first."""

    def change(attentions: list[Attention]) -> None:
        last = attentions[-1]
        last.future = torch.ones_like(cast("Tensor", last.future)).triu(2)

    return _with_changed_attention(session, change)


@planted(
    about="attention scores are not divided by the root of the head dim",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=lambda case: any(layer.head_dim > 1 for layer in _attentions(case)),
)
def scale_forgotten(session: Session, _case: Case, _rank: int) -> Session:
    """Queries are multiplied by what the scores will be divided by."""

    def change(attentions: list[Attention]) -> None:
        for module in attentions:
            module.q.register_forward_hook(lambda _m, _i, output, root=module.head_dim**0.5: output * root)

    return _with_changed_attention(session, change)


@planted(
    about="softmax takes no running maximum",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=lambda case: bool(_attentions(case)) and case.data.regime == "sharp",
)
def softmax_without_maximum(session: Session, _case: Case, _rank: int) -> Session:
    """Exponentials of large scores overflow."""

    def naive(scores: Tensor, dim: int, **_: Any) -> Tensor:  # noqa: ANN401
        weights = scores.exp()
        return weights / weights.sum(dim, keepdim=True)

    functional.softmax = naive  # type: ignore[assignment]  # this process runs nothing else
    return session


@planted(
    about="every rank has the first rank's segment ids",
    backends=("torch_ddp", "torch_fsdp"),
    blame=SHARDING,
    reaches=_packed,
)
def segments_not_sharded(session: Session, case: Case, _rank: int) -> Session:
    """Every rank gets the ids of the first rows, as many as it has rows.

    This is what happens when ids are not sharded with the batch.
    """

    def first_rows(ids: Tensor) -> Tensor:
        placed = session.feed(ids)
        return ids[: len(placed)].to(placed.device)

    return _with_changed_segments(session, case, first_rows)


@planted(
    about="segment ids belong to another shard of the batch",
    backends=("xla_spmd",),
    blame=SHARDING,
    reaches=_packed,
)
def segments_of_other_shard(session: Session, case: Case, _rank: int) -> Session:
    """The ids of the other half of the batch, as in a second shard whose ids are not sharded with it.

    One device has no second shard.
    """
    if case.world_size == 1:
        return session
    return _with_changed_segments(session, case, lambda ids: session.feed(ids.roll(len(ids) // 2, 0)))

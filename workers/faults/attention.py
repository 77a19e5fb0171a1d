"""Defects of attention: masks, segment ids, scale and softmax."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from difftest.cases import layers as data
from difftest.cases.case import Case
from workers.faults import BACKEND, SHARDING, Fault
from workers.training.build import Attention
from workers.training.session import Session

EVERYWHERE = ("torch_ddp", "torch_dtensor", "xla_spmd")
SEGMENTS_FED = 2
"""The place of segment ids among what is fed for a part: inputs, targets, segment ids, the rest."""


def _attentions(case: Case) -> list[data.Attention]:
    return [layer for _, layer in data.walk(case.model.layers) if isinstance(layer, data.Attention)]


def _placing(change: Callable[[list[Attention]], None]) -> Callable[[Session, Case, int], Session]:
    """Plants a change of the attention modules, made before they are placed."""

    def plant(session: Session, _case: Case, _rank: int) -> Session:
        def place(module: nn.Module) -> nn.Module:
            change([m for m in module.modules() if isinstance(m, Attention)])
            return session.place(module)

        return replace(session, place=place)

    return plant


def _mask_off_by_one(found: list[Attention]) -> None:
    last = found[-1]
    last.future = torch.ones_like(cast("Tensor", last.future)).triu(2)


def _forget_scale(found: list[Attention]) -> None:
    for attention in found:
        attention.q.register_forward_hook(lambda _m, _i, output, root=attention.head_dim**0.5: output * root)


def _softmax_without_maximum(session: Session, _case: Case, _rank: int) -> Session:
    def naive(scores: Tensor, dim: int, **_: Any) -> Tensor:  # noqa: ANN401
        weights = scores.exp()
        return weights / weights.sum(dim, keepdim=True)

    functional.softmax = naive  # type: ignore[assignment]  # this process runs nothing else
    return session


def _refed(session: Session, case: Case, change: Callable[[Tensor], Tensor]) -> Session:
    """The session with segment ids fed by `change` instead."""
    fed, a_part = itertools.count(), 2 + case.model.segments + len(case.model.dropouts)

    def feed(tensor: Tensor) -> Tensor:
        return change(tensor) if next(fed) % a_part == SEGMENTS_FED else session.feed(tensor)

    return replace(session, feed=feed)


def _whole_segments(session: Session, case: Case, _rank: int) -> Session:
    """Every rank gets the ids of the first rows, as many as it has: what happens when they are not sharded with the batch."""

    def first_rows(ids: Tensor) -> Tensor:
        placed = session.feed(ids)
        return ids[: len(placed)].to(placed.device)

    return _refed(session, case, first_rows)


def _rolled_segments(session: Session, case: Case, _rank: int) -> Session:
    """The ids of the other half of the batch: what a second shard sees when ids are not sharded with it. One device has no second."""
    if case.world_size == 1:
        return session
    return _refed(session, case, lambda ids: session.feed(ids.roll(len(ids) // 2, 0)))


def _packed(case: Case) -> bool:
    return case.model.segments and len(case.layout.batch_axes) > 0 and case.world_size > 1


FAULTS = (
    Fault(
        name="mask_off_by_one",
        about="the causal mask of the last block lets one future position through",
        backends=EVERYWHERE,
        blame=BACKEND,
        reaches=lambda case: bool(found := _attentions(case)) and found[-1].causal,
        plant=_placing(_mask_off_by_one),
    ),
    Fault(
        name="scale_forgotten",
        about="attention scores are not divided by the root of the head dim",
        backends=EVERYWHERE,
        blame=BACKEND,
        reaches=lambda case: any(layer.head_dim > 1 for layer in _attentions(case)),
        plant=_placing(_forget_scale),
    ),
    Fault(
        name="softmax_without_maximum",
        about="softmax takes no running maximum",
        backends=EVERYWHERE,
        blame=BACKEND,
        reaches=lambda case: bool(_attentions(case)) and case.data.regime == "sharp",
        plant=_softmax_without_maximum,
    ),
    Fault(
        name="segments_not_sharded",
        about="every rank has the first rank's segment ids",
        backends=("torch_ddp", "torch_fsdp"),
        blame=SHARDING,
        reaches=_packed,
        plant=_whole_segments,
    ),
    Fault(
        name="segments_of_other_shard",
        about="segment ids belong to another shard of the batch",
        backends=("xla_spmd",),
        blame=SHARDING,
        reaches=_packed,
        plant=_rolled_segments,
    ),
)

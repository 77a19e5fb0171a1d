"""A right run with damage, of which each check declares what it must report (`difftest.judge.canary`)."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from difftest.cases.case import Case
from difftest.judge.outcome import Outcome, Sharded, Trace
from difftest.judge.stage import Stage

Key: TypeAlias = tuple[int, Stage, str]
"""The step, stage and name of a tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Damage to a right run, in words, and how it is done: None for a run or a case that cannot show it."""

    words: str
    spoil: Callable[[Case, Trace], Outcome | None]


def last(trace: Trace, stage: Stage) -> Key | None:
    """The last tensor of a stage in the last step, other than the loss; None where there is none."""
    step = len(trace.steps) - 1
    names = [name for at, name in trace.steps[step] if at is stage and name != "loss"]
    return (step, stage, names[-1]) if names else None


def holder(trace: Trace, key: Key) -> int | None:
    """The last rank that holds floating-point numbers of a tensor; None where none does."""
    pieces = reversed(list(tensor_at(trace, key).pieces.items()))
    return next((rank for rank, piece in pieces if piece.size and piece.dtype.kind == "f"), None)


def tensor_at(trace: Trace, key: Key) -> Sharded:
    """The tensor of a trace."""
    step, stage, name = key
    return trace.steps[step][stage, name]


def nudged(trace: Trace, key: Key, rank: int) -> Trace:
    """The trace with the next greater number as the last element in the piece of one rank."""
    value = tensor_at(trace, key).pieces[rank].flat[-1]
    return with_last_element(trace, key, rank, np.nextafter(value, value.dtype.type(np.inf)))


def with_last_element(trace: Trace, key: Key, rank: int, value: Any) -> Trace:  # noqa: ANN401  a number of numpy's
    """The trace with another last element in the piece of one rank."""
    tensor = tensor_at(trace, key)
    piece = tensor.pieces[rank].copy()
    piece.flat[-1] = value
    return with_tensor(trace, key, dataclasses.replace(tensor, pieces={**tensor.pieces, rank: piece}))


def with_tensor(trace: Trace, key: Key, tensor: Sharded | None) -> Trace:
    """The trace with another tensor, or without it."""
    step, stage, name = key
    kept = {at: held for at, held in trace.steps[step].items() if tensor or at != (stage, name)}
    changed = kept if tensor is None else {**kept, (stage, name): tensor}
    return dataclasses.replace(trace, steps=(*trace.steps[:step], changed, *trace.steps[step + 1 :]))

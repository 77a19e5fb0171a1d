"""Checkpointed tensors: put together from shards, on the CPU, as numpy's arrays."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from difftest.ground.errors import UsageError
from difftest.runs.checkpoint import About, Array
from workers.torch.arrays import as_array

Indices: TypeAlias = tuple[Any, ...]
"""The elements of a whole tensor that a shard has: those along each dim, as slices or arrays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointShard:
    """A shard of a tensor: which elements it has, and how it is read."""

    at: Indices
    read: Callable[[], Tensor]


@dataclass(kw_only=True)
class ShardedCheckpoint:
    """A checkpoint of tensors whose shards are read when they are needed."""

    name: str
    tensors: Mapping[str, About]
    shards: Mapping[str, Sequence[CheckpointShard]]
    values: Mapping[str, str] = field(default_factory=dict)
    torn: Sequence[str] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    def array(self, name: str) -> Array:
        """A tensor, whole."""
        shape, shards = self.tensors[name].shape, self.shards[name]
        if len(shards) == 1 and tuple((only := shards[0].read()).shape) == shape:
            return as_array(only)
        whole, filled = None, np.zeros(shape, bool)
        for shard in shards:
            part = as_array(shard.read())
            whole = np.zeros(shape, part.dtype) if whole is None else whole
            where = _open(shard.at, shape)
            whole[where], filled[where] = part, True
        if whole is None or not filled.all():
            msg = (
                f"{self.name} lacks {filled.size - int(filled.sum())} of the {math.prod(shape)} elements of "
                f"{name}; the files of all ranks are needed"
            )
            raise UsageError(msg)
        return whole


def _open(at: Indices, shape: Sequence[int]) -> tuple[Any, ...]:
    """The place of a shard as numpy takes it."""
    if all(isinstance(one, slice) for one in at):
        return at
    return np.ix_(*(np.arange(size)[one] for one, size in zip(at, shape, strict=True))) if at else ()


def block(offsets: Sequence[int], sizes: Sequence[int]) -> Indices:
    """The elements of a block."""
    return tuple(slice(begin, begin + size) for begin, size in zip(offsets, sizes, strict=True))


def about(tensor: Tensor, shape: Sequence[int] | None = None) -> About:
    """The shape, or that of the whole tensor, and the dtype."""
    return About(
        shape=tuple(tensor.shape if shape is None else shape), dtype=str(tensor.dtype).removeprefix("torch.")
    )

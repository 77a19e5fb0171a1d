"""What is read of one checkpoint, of whichever format: `workers.checkpoints` gives it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy.typing as npt

Array = npt.NDArray[Any]


class About(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor's shape and dtype."""

    shape: tuple[int, ...]
    dtype: str


class Checkpoint(Protocol):
    """What is read of a checkpoint: its tensors by name, put together from their shards, and other values.

    `torn` are the tensors whose copies on the ranks differ, `unread` what was not read, with the reason.
    """

    name: str
    tensors: Mapping[str, About]
    values: Mapping[str, str]
    torn: Sequence[str]
    unread: Mapping[str, str]

    def array(self, name: str) -> Array:
        """A tensor as numpy's; of a dtype that numpy lacks, as float32."""

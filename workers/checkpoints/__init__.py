"""Checkpoints as files, one file a format: what `difftest checkpoints` compares.

To add a format, add a file here that satisfies `CheckpointFormat`. No code of a checkpoint runs: what a
pickle may name are tensors and plain values, and anything else is refused.
"""

from pathlib import Path
from typing import Protocol

from difftest.ground import plugins
from difftest.ground.errors import UsageError
from difftest.runs.checkpoint import Checkpoint


class CheckpointFormat(Protocol):
    """What a file in this folder declares."""

    ORDER: int
    """The format with the smallest number that recognizes a path reads it."""

    ABOUT: str
    """What it is, for messages."""

    def recognizes(self, path: Path) -> bool:
        """Whether a file or folder is of this format, by its name and those of its files."""

    def read(self, path: Path) -> Checkpoint:
        """The checkpoint at `path`; `UsageError` where it cannot be read."""


def load(name: str) -> CheckpointFormat:
    """The format called `name`; `UsageError` when there is none."""
    checkpoint_format: CheckpointFormat = plugins.load(__name__, name)
    return checkpoint_format


def read(path: Path) -> Checkpoint:
    """The checkpoint at `path`, of whichever format; `UsageError` where there is none or it is unreadable."""
    if not path.exists():
        msg = f"there is no checkpoint {str(path)!r}"
        raise UsageError(msg)
    formats = sorted(map(load, plugins.names(__name__)), key=lambda one: one.ORDER)
    for one in formats:
        if one.recognizes(path):
            return one.read(path)
    inside = sorted(path.iterdir()) if path.is_dir() else []
    below = [each for each in inside if any(one.recognizes(each) for one in formats)]
    near = f"; did you mean {str(below[0])!r}?" if below else "."
    msg = f"{str(path)!r} holds no checkpoint{near} Allowed: {'; '.join(one.ABOUT for one in formats)}"
    raise UsageError(msg)

"""One rank's result as files in its run's folder: how it gets from the process that trained to the one that waits."""

from pathlib import Path

from difftest import traces
from difftest.outcome import Outcome


def write(folder: Path, rank: int, outcome: Outcome) -> None:
    """Leaves `outcome` in `folder`, whole or not at all."""
    traces.save(folder / f"rank{rank}", outcome)


def read(folder: Path, rank: int) -> Outcome | None:
    """What `write` left, or None when the rank wrote nothing."""
    return traces.load(folder / f"rank{rank}")

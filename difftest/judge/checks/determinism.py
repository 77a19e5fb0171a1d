"""The same case on the same backend gives the same bits in other processes."""

from collections.abc import Iterator

import numpy as np

from difftest.judge.divergence import Divergence
from difftest.judge.measured import Pair
from difftest.judge.outcome import Failure, Sharded, Symptom

ORDER = 2
PARTLY = "where it can be"
"""What a run's environment calls `deterministic` when its backend was told to use kernels that are not: its bits prove nothing."""


def check(seen: Pair) -> Iterator[Divergence]:
    """One divergence a tensor that a second run has otherwise, or one for a second run that failed; nothing where none was made.

    A first run that failed is the completion check's business.
    """
    if isinstance(seen.actual, Failure) or seen.again is None:
        return
    if isinstance(seen.again, Failure):
        yield seen.fails("determinism", seen.again, "run again, it failed: ")
        return
    if seen.actual.environment.get("deterministic") == PARTLY:
        return
    for key, tensor in seen.tensors():
        step, stage, name = key
        if differing := _differing(tensor, seen.again.steps[step].get((stage, name))):
            yield seen.diverges(
                "determinism", Symptom.MISMATCH, key, f"run again, ranks {differing} have other bits"
            )


def _differing(tensor: Sharded, other: Sharded | None) -> list[int]:
    """The ranks whose pieces are not the same."""
    pieces = {} if other is None else other.pieces
    return [rank for rank, piece in tensor.pieces.items() if not same_bits(piece, pieces.get(rank))]


def same_bits(one: object, other: object) -> bool:
    """Whether two arrays hold the same values, NaN in the same places; never when one is missing."""
    return (
        one is not None
        and other is not None
        and np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True)
    )

"""Gradients, before clipping, agree with the oracle's."""

from collections.abc import Iterator

from difftest.divergence import Divergence
from difftest.outcome import Stage
from difftest.pair import Pair, mismatches

ORDER = 4


def check(seen: Pair) -> Iterator[Divergence]:
    """One divergence a tensor whose error is beyond rounding, element by element."""
    return mismatches(seen, "gradients", Stage.BACKWARD)

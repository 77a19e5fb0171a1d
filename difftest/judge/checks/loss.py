"""The loss and the model's outputs agree with the oracle's."""

from collections.abc import Iterator

from difftest.judge.divergence import Divergence
from difftest.judge.measured import Pair, mismatches
from difftest.judge.outcome import Stage

ORDER = 4


def check(seen: Pair) -> Iterator[Divergence]:
    """One divergence a tensor whose error is beyond rounding, element by element."""
    return mismatches(seen, "loss", Stage.FORWARD)

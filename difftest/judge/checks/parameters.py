"""Parameters agree with the oracle's after every update."""

from collections.abc import Iterator

from difftest.judge.divergence import Divergence
from difftest.judge.measured import Pair, mismatches
from difftest.judge.outcome import Stage

ORDER = 4


def check(seen: Pair) -> Iterator[Divergence]:
    """One divergence a tensor whose error is beyond rounding, element by element."""
    return mismatches(seen, "parameters", Stage.UPDATE)

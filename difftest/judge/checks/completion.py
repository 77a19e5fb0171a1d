"""A candidate finishes whenever the oracle does."""

from collections.abc import Iterator

from difftest.judge.divergence import Divergence
from difftest.judge.measured import Pair
from difftest.judge.outcome import Failure

ORDER = 0


def check(seen: Pair) -> Iterator[Divergence]:
    """One divergence when the run failed: crash, hang, exception or capability, each a symptom of its own."""
    failure = seen.actual
    if isinstance(failure, Failure):
        yield seen.fails("completion", failure)

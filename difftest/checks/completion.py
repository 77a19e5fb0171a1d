"""A candidate finishes whenever the oracle does."""

from collections.abc import Iterator

from difftest.divergence import Divergence
from difftest.outcome import Failure
from difftest.pair import Pair

ORDER = 0


def check(seen: Pair) -> Iterator[Divergence]:
    """One divergence when the run failed: crash, hang, exception or capability, each a symptom of its own."""
    failure = seen.actual
    if isinstance(failure, Failure):
        yield seen.fails("completion", failure)

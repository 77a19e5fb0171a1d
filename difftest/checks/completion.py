"""A candidate finishes whenever the oracle does."""

from collections.abc import Iterator

from difftest.divergence import Divergence, identity
from difftest.outcome import Failure
from difftest.pair import Pair

ORDER = 0


def check(seen: Pair) -> Iterator[Divergence]:
    """One divergence when the run failed: crash, hang, exception or capability, each a symptom of its own."""
    failure = seen.actual
    if isinstance(failure, Failure):
        yield Divergence(
            backend=seen.backend,
            side=seen.side,
            path=seen.case.path,
            check="completion",
            symptom=failure.symptom,
            stage=failure.stage,
            step=failure.step,
            cause=identity(failure),
            detail=f"step {failure.step}, {failure.stage}, rank {failure.rank}: {failure.kind}: {failure.message}",
            log=failure.log,
        )

"""A parameter is annotated as the layout shards it, before the first step: what the compiler makes of that later is its own business.

Fewer pieces than asked for give the same numbers, and every device holds more than it should.
"""

from collections.abc import Iterator

from difftest.judge.divergence import Divergence
from difftest.judge.measured import Pair
from difftest.judge.outcome import Failure, Stage, Symptom

ORDER = 1


def check(seen: Pair) -> Iterator[Divergence]:
    """One divergence for the first such parameter. `events["misplaced"]` has by name the pieces of every dim, as they are and as asked."""
    misplaced = {} if isinstance(seen.actual, Failure) else dict(seen.actual.events.get("misplaced", {}))
    for name, (held, asked) in list(misplaced.items())[:1]:
        yield seen.divergence(
            check="annotation",
            symptom=Symptom.MISMATCH,
            stage=Stage.PLACE,
            tensor=name,
            cause="a parameter is cut into other pieces than asked for",
            detail=f"step 0, place, {name}: its dims are annotated to be cut into {list(held)} pieces, expected {list(asked)}",
        )

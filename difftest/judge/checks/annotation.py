"""A parameter is annotated as the layout shards it, before the first step.

What the compiler makes of it later is not checked.

Fewer pieces than requested give the same numbers, but every device then holds more than it should.
"""

from collections.abc import Iterator

from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Failure, Symptom
from difftest.judge.stage import Stage

ORDER = 1
TRAITS = Traits()


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for the first misplaced parameter, see `difftest.judge.events.Misplaced`."""
    misplaced = {} if isinstance(run.actual, Failure) else run.actual.events.misplaced
    for name, pieces in list(misplaced.items())[:1]:
        yield run.divergence(
            check="annotation",
            symptom=Symptom.MISMATCH,
            stage=Stage.PLACE,
            tensor=name,
            cause="a parameter is cut into other pieces than asked for",
            detail=f"step 0, place, {name}: its dims are annotated to be cut into "
            f"{list(pieces.held)} pieces, expected {list(pieces.requested)}",
        )

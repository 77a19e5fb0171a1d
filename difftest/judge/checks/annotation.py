"""A parameter is annotated as the layout shards it, before the first step.

What the compiler makes of it later is not checked.

Fewer pieces than requested give the same numbers, but every device then holds more than it should.
"""

from collections.abc import Iterator

from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.facts import RemarkFacts
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

ORDER = 1
TRAITS = Traits()


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for the first misplaced parameter, see `difftest.judge.events.Misplaced`."""
    for name, pieces in list(run.events.misplaced.items())[:1]:
        yield run.divergence(
            check="annotation",
            symptom=Symptom.MISMATCH,
            stage=Stage.PLACE,
            tensor=name,
            cause="a parameter is cut into other pieces than asked for",
            facts=RemarkFacts(
                remark=f"its dims are annotated to be cut into {list(pieces.held)} pieces, "
                f"expected {list(pieces.requested)}"
            ),
        )

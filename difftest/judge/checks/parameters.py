"""Parameters agree with the oracle's after every update."""

from collections.abc import Iterator

from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.measured import MeasuredRun
from difftest.judge.mismatches import mismatches
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

ORDER = 4
TRAITS = Traits(
    uses_numbers=True,
    scripts={Symptom.MISMATCH: "numbers"},
    places=lambda case: ((Stage.UPDATE, name) for name in case.model.parameters()),
)


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each tensor with an element whose error is beyond rounding; none for buffers."""
    buffers = run.case.model.statistics()
    return mismatches(run, "parameters", Stage.UPDATE, lambda name: name not in buffers)

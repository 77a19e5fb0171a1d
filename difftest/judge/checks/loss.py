"""The loss and the model's outputs agree with the oracle's."""

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
    places=lambda _case: ((Stage.FORWARD, "output"), (Stage.FORWARD, "loss")),
)


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each tensor with an element whose error is beyond rounding."""
    return mismatches(run, "loss", Stage.FORWARD)

"""The loss and the model's outputs agree with the oracle's."""

from collections.abc import Iterable, Iterator

from difftest.cases.case import Case
from difftest.cases.layers.operator import full_name
from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.measured import MeasuredRun
from difftest.judge.mismatches import mismatches
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage


def _places(case: Case) -> Iterable[tuple[Stage, str]]:
    """The output and the loss, or the results of a program."""
    if case.model.is_program:
        return [(Stage.FORWARD, full_name(path, "output")) for path in case.model.operators]
    return [(Stage.FORWARD, "output"), (Stage.FORWARD, "loss")]


ORDER = 4
TRAITS = Traits(
    uses_numbers=True,
    scripts={Symptom.MISMATCH: "numbers"},
    places=_places,
)


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each tensor with an element whose error is beyond rounding."""
    return mismatches(run, "loss", Stage.FORWARD)

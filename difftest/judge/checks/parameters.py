"""Parameters agree with the oracle's after every update."""

from collections.abc import Iterator, Mapping

from difftest.judge.checks import ScriptKind
from difftest.judge.divergence import Divergence
from difftest.judge.measured import MeasuredRun
from difftest.judge.mismatches import mismatches
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

ORDER = 4
USES_NUMBERS = True
COMPARES_RANKS = False
TAKES_TWO_RUNS = False
RUN_FAILED = False
LACKS_CAPABILITY = False
SCRIPTS: Mapping[Symptom, ScriptKind] = {Symptom.MISMATCH: "numbers"}


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each tensor with an element whose error is beyond rounding."""
    return mismatches(run, "parameters", Stage.UPDATE)

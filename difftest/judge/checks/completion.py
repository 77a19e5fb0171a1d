"""A candidate finishes whenever the oracle does."""

from collections.abc import Iterator, Mapping

from difftest.judge.checks import ScriptKind
from difftest.judge.divergence import Divergence
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Failure, Symptom

ORDER = 0
USES_NUMBERS = False
COMPARES_RANKS = False
TAKES_TWO_RUNS = False
RUN_FAILED = True
LACKS_CAPABILITY = False
SCRIPTS: Mapping[Symptom, ScriptKind] = {
    Symptom.EXCEPTION: "raises",
    Symptom.CAPABILITY: "raises",
    Symptom.CRASH: "crash",
    Symptom.HANG: "hang",
}


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence when the run failed: crash, hang, exception or capability, each a symptom of its own."""
    failure = run.actual
    if isinstance(failure, Failure):
        yield run.failure("completion", failure)

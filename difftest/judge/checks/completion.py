"""A candidate finishes whenever the oracle does, and raises an exception where the oracle must."""

from collections.abc import Iterator

from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Failure, Symptom, dies
from difftest.judge.stage import STAGES, Stage

ORDER = 0
TRAITS = Traits(
    run_failed=True,
    scripts={
        Symptom.EXCEPTION: "raises",
        Symptom.CAPABILITY: "raises",
        Symptom.CRASH: "crash",
        Symptom.HANG: "hang",
    },
)


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence when the run failed: crash, hang, exception or capability, each a symptom of its own.

    Where the oracle rejects a program's arguments, an exception is right from the forward on. A lazy backend
    may raise late.
    """
    failure = run.actual
    if not isinstance(failure, Failure):
        return
    early = STAGES.index(failure.stage) < STAGES.index(Stage.FORWARD)
    if run.rejection is None or dies(failure) or early:
        yield run.failure("completion", failure)

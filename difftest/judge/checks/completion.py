"""A candidate finishes whenever the oracle does, and raises an exception where the oracle must."""

from collections.abc import Iterator

from difftest.cases.case import Case
from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Failure, Symptom, Trace, dies
from difftest.judge.spoiled import Damage
from difftest.judge.stage import STAGES, Stage


def _crashed(_case: Case, right: Trace) -> Failure:
    step = len(right.steps) - 1
    return Failure(symptom=Symptom.CRASH, stage=Stage.UPDATE, step=step, kind="SIGABRT", message="canary")


ORDER = 0
TRAITS = Traits(
    run_failed=True,
    scripts={
        Symptom.EXCEPTION: "raises",
        Symptom.CAPABILITY: "raises",
        Symptom.CRASH: "crash",
        Symptom.HANG: "hang",
    },
    damage=Damage(words="a run that crashed", spoil=_crashed),
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

"""On a learnable task, the candidate learns as the oracle does: the loss over a longer run."""

from collections.abc import Iterator

from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.facts import RemarkFacts
from difftest.judge.measured import MeasuredRun, beyond
from difftest.judge.outcome import Symptom, Trace
from difftest.judge.stage import Stage

ORDER = 5
TRAITS = Traits(uses_numbers=True, scripts={Symptom.MISMATCH: "numbers"})

LEAST_STEPS = 10
"""Shorter runs are not judged by this check."""

SOLVED = 0.5
"""A task counts as learned when the last loss is at most this share of the first."""


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """A divergence when the oracle learns the task and the candidate, beyond rounding, does not."""
    steps = run.case.training.steps
    if not run.case.data.learnable or steps < LEAST_STEPS or not isinstance(run.actual, Trace):
        return
    first, last = ((step, Stage.FORWARD, "loss") for step in (0, steps - 1))
    if first not in run.measured or last not in run.measured or not beyond(run.measured[last]):
        return
    truth, curve = ([loss(trace, step) for step in (0, steps - 1)] for trace in (run.expected, run.actual))
    if truth[-1] <= SOLVED * truth[0] and not curve[-1] <= SOLVED * curve[0]:
        remark = (
            f"the oracle's loss falls from {truth[0]:.4g} to {truth[-1]:.4g}, "
            f"this one's from {curve[0]:.4g} to {curve[-1]:.4g}"
        )
        yield run.tensor_divergence(
            "convergence", Symptom.MISMATCH, last, RemarkFacts(remark=remark), run.measured[last].ratio
        )


def loss(trace: Trace, step: int) -> float:
    """The loss of one step, as one of its ranks holds it."""
    return float(next(iter(trace.steps[step][Stage.FORWARD, "loss"].pieces.values())).item())

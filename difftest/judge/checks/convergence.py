"""On a task that can be learned, the candidate learns it as the oracle does: the loss, over a longer run."""

from collections.abc import Iterator

from difftest.judge.divergence import Divergence
from difftest.judge.measured import Pair, beyond
from difftest.judge.outcome import Stage, Symptom, Trace

ORDER = 5
LEAST_STEPS = 10
SOLVED = 0.5
"""A task counts as learned when the last loss is at most this share of the first."""


def check(seen: Pair) -> Iterator[Divergence]:
    """A divergence when the oracle solves the task and the candidate, beyond rounding, does not."""
    steps = seen.case.training.steps
    if not seen.case.data.learnable or steps < LEAST_STEPS or not isinstance(seen.actual, Trace):
        return
    first, last = ((step, Stage.FORWARD, "loss") for step in (0, steps - 1))
    if first not in seen.measured or last not in seen.measured or not beyond(seen.measured[last]):
        return
    truth, curve = ([loss(trace, step) for step in (0, steps - 1)] for trace in (seen.expected, seen.actual))
    if truth[-1] <= SOLVED * truth[0] and not curve[-1] <= SOLVED * curve[0]:
        detail = f"the oracle's loss falls from {truth[0]:.4g} to {truth[-1]:.4g}, this one's from {curve[0]:.4g} to {curve[-1]:.4g}"
        yield seen.diverges("convergence", Symptom.MISMATCH, last, detail, seen.measured[last].ratio)


def loss(trace: Trace, step: int) -> float:
    """The loss of one step, as one of its ranks has it."""
    return float(next(iter(trace.steps[step][Stage.FORWARD, "loss"].pieces.values())).item())

"""Nothing was trained: every parameter still has its initial value, whatever the updates were."""

import numpy as np

from difftest.cases import numbers
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.stage import STAGES, Stage


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether all updates before the tensor left all parameters as they were, of which the oracle's moved."""
    step, stage, _ = at
    last = step if STAGES.index(stage) >= STAGES.index(Stage.UPDATE) else step - 1
    initial = numbers.weights(run.case)
    updates = [(step, Stage.UPDATE, name) for step in range(last + 1) for name in initial]
    if not updates or not run.measured.keys() >= set(updates):
        return False
    moved = any(run.measured[update].ratio > 0.0 for update in updates)
    return moved and all(
        np.array_equal(run.beside(update)[2].full(run.case.layout.mesh), initial[update[2]])
        for update in updates
    )

"""A batch norm leaves its running statistics as they were: a mean of 0 and a variance of 1."""

import numpy as np

from difftest.cases import numbers
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.stage import Stage

INITIAL = {"running_mean": 0.0, "running_var": 1.0}


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether a running statistic still has its initial value, whatever the batches were."""
    _, stage, name = at
    kind = name.rpartition(".")[2]
    if stage is not Stage.UPDATE or kind not in INITIAL:
        return False
    truth, _, actual = run.beside(at)
    initial = numbers.weights(run.case).get(name, np.full(truth.shape, INITIAL[kind]))
    return np.array_equal(actual.full(run.case.layout.mesh), initial) and not np.array_equal(truth, initial)

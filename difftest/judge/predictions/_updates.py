"""The optimizers' updates in float64, from the oracle's gradients: what a wrong factor on these would give.

Only those of `torch.optim` with the workers' arguments. A feature that changes the update is not modelled.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from difftest.cases import numbers
from difftest.judge.measured import Floats, MeasuredRun
from difftest.judge.stage import Stage

MOMENTUM, DECAY = 0.875, 0.125
FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-8
MODELLED = ("sgd", "momentum", "adam", "adamw")
CLIP_EPSILON = 1e-6
"""What `clip_grad_norm_` adds to the norm."""

Gradients = Sequence[Mapping[str, Floats]]
"""By step and parameter."""


def gradients(run: MeasuredRun, last: int) -> Gradients | None:
    """The oracle's gradients of the steps up to `last`, before clipping; None where one is missing."""
    names = list(numbers.weights(run.case))
    keys = [[(step, Stage.BACKWARD, name) for name in names] for step in range(last + 1)]
    if not names or not run.measured.keys() >= {key for step in keys for key in step}:
        return None
    return [{key[2]: np.asarray(run.truth(key)[0], np.float64) for key in step} for step in keys]


def updated(run: MeasuredRun, name: str, gradients: Sequence[Floats]) -> Floats:
    """The parameter after updates with these gradients, one a step."""
    training = run.case.training
    kind, rate = training.optimizer, training.learning_rate
    value = np.array(numbers.weights(run.case)[name])
    first, second = np.zeros_like(value), np.zeros_like(value)
    for step, gradient in enumerate(gradients, start=1):
        if kind in {"sgd", "momentum"}:
            first = gradient + (MOMENTUM * first if kind == "momentum" else 0.0)
            value -= rate * first
            continue
        if kind == "adamw":
            value *= 1.0 - rate * DECAY
        first = FIRST * first + (1.0 - FIRST) * gradient
        second = SECOND * second + (1.0 - SECOND) * gradient**2
        root = np.sqrt(second / (1.0 - SECOND**step)) + EPSILON
        value -= rate * first / (1.0 - FIRST**step) / root
    return value


def clipping(run: MeasuredRun, gradients: Gradients) -> list[float]:
    """The factor by which the case's clipping multiplies the gradients of each step."""
    most = run.case.training.clip_norm
    if most is None:
        return [1.0] * len(gradients)
    norms = (np.sqrt(sum(float((one**2).sum()) for one in step.values())) for step in gradients)
    return [min(1.0, most / (float(norm) + CLIP_EPSILON)) for norm in norms]

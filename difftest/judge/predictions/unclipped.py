"""Gradients that should be clipped are not: a parameter is updated with the gradient as it was."""

import numpy as np

from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.noise import THRESHOLD
from difftest.judge.predictions import _updates
from difftest.judge.stage import Stage


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether updates with the gradients before clipping give the parameter within rounding."""
    last, stage, name = at
    modelled = run.case.training.optimizer in _updates.MODELLED
    gradients = _updates.gradients(run, last) if modelled and stage is Stage.UPDATE else None
    if gradients is None or name not in gradients[0]:
        return False
    return gives(run, name, gradients)


def gives(run: MeasuredRun, name: str, gradients: _updates.Gradients) -> bool:
    """Whether updates with these gradients, one a step, give the parameter after the last within rounding."""
    _, floors, actual = run.beside((len(gradients) - 1, Stage.UPDATE, name))
    raw = _updates.updated(run, name, [step[name] for step in gradients])
    return bool((np.abs(actual.full(run.case.layout.mesh) - raw) <= THRESHOLD * floors).all())

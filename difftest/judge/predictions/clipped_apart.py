"""Every rank clips and applies its own share of the gradients, whose mean over the ranks is right.

Then the right gradients are a sum of the ranks' updates, each times a number of its own. There is one such
number for a rank, and there must be many more elements of parameters.
"""

import numpy as np

from difftest.judge.measured import Floats, Key, MeasuredRun
from difftest.judge.noise import THRESHOLD
from difftest.judge.predictions import _updates
from difftest.judge.stage import Stage

LEAST_NUMBERS = 4
"""How many elements there must be for each rank."""

LINEAR = ("sgd", "momentum")
"""The optimizers whose updates are linear in the gradient."""

SLIGHTLY = 1e-3
"""How much less than its share of the mean a rank's number may be, relatively: clipping makes it greater."""

TINY = float(np.finfo(np.float64).tiny)


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether ranks that hold whole parameters differ, and their updates add up to the right gradients."""
    step, stage, _ = at
    modelled = run.case.training.optimizer in LINEAR and stage is Stage.UPDATE
    gradients = _updates.gradients(run, step) if modelled else None
    if gradients is None:
        return False
    factors = _updates.clipping(run, gradients)
    updates, right, noise = list[Floats](), list[Floats](), list[Floats]()
    for name, gradient in gradients[step].items():
        _, floors, actual = run.beside((step, Stage.UPDATE, name))
        if any(piece.shape != actual.shape for piece in actual.pieces.values()):
            return False
        earlier = [factor * one[name] for factor, one in zip(factors[:step], gradients, strict=False)]
        before = _updates.updated(run, name, [*earlier, np.zeros_like(gradient)])
        updates.append(np.stack([(piece - before).ravel() for piece in actual.pieces.values()], axis=1))
        right.append(-run.case.training.learning_rate * gradient.ravel())
        noise.append(np.maximum(floors.ravel(), TINY))
    return _add_up(np.concatenate(updates), np.concatenate(right), np.concatenate(noise))


def _add_up(updates: Floats, right: Floats, noise: Floats) -> bool:
    """Whether `updates` (elements by ranks), of which some differ, add up to the `right` one."""
    elements, ranks = updates.shape
    if elements < LEAST_NUMBERS * ranks or not np.isfinite(updates).all():
        return False
    differ = np.abs(updates - updates[:, :1]).max(axis=1) > THRESHOLD * noise
    numbers = np.linalg.lstsq(updates / noise[:, None], right / noise, rcond=None)[0]
    off = np.abs(updates @ numbers - right) <= THRESHOLD * noise * np.abs(numbers).sum()
    return bool(differ.any() and off.all() and (numbers >= (1.0 - SLIGHTLY) / ranks).all())

"""Gradients are clipped by another norm than their own: all of a step are multiplied by one wrong factor.

Those of some parameters may not be clipped at all beside that, as where clipping a partial sum is lost. The
factors are those that fit the other parameters best. There is one of them for a step, and there must be many
more numbers that they give.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from difftest.judge.measured import Floats, Key, MeasuredRun
from difftest.judge.noise import THRESHOLD
from difftest.judge.predictions import _updates, unclipped
from difftest.judge.stage import Stage

LEAST_NUMBERS = 4
"""How many elements of parameters there must be for each factor."""

MOST_STEPS = 8
"""Where more steps than these come before the first that is wrong, nothing is fitted."""

ROUNDS = 20
"""Of Gauss-Newton."""

SLIGHTLY = 1e-6
"""The change of a factor's logarithm by which its effect is measured."""

CLOSE = 1e-3
"""How far above 0 a factor's logarithm may come out for rounding: clipping makes no gradient greater."""

MOST_CHANGE = 2.0
"""Of a factor's logarithm in one round."""

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, kw_only=True)
class Factors:
    """The logarithms of the factors of each step: those of the right norm, and those that the run had."""

    right: Floats
    found: Floats


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether wrong factors of at most 1 give all parameters up to the step within rounding."""
    factors = wrong_factors(run, at)
    return factors is not None and bool((factors.found <= CLOSE).all())


def wrong_factors(run: MeasuredRun, at: Key) -> Factors | None:
    """The factors that give all parameters up to the step within rounding; None where the right ones do.

    None too where no factors do. A wrong parameter that an update with the gradients before clipping gives
    counts as not clipped.
    """
    last, stage, _ = at
    modelled = run.case.training.optimizer in _updates.MODELLED
    gradients = (
        _updates.gradients(run, last) if modelled and stage is Stage.UPDATE and last < MOST_STEPS else None
    )
    if gradients is None or not run.measured.keys() >= {(last, stage, name) for name in gradients[0]}:
        return None
    wrong = {name for name in gradients[0] if run.measured[last, stage, name].ratio > THRESHOLD}
    clipped = [
        name for name in gradients[0] if name not in wrong or not unclipped.gives(run, name, gradients)
    ]
    keys = [(step, Stage.UPDATE, name) for step in range(last + 1) for name in clipped]
    beside = [run.beside(key) for key in keys]
    values = [actual.full(run.case.layout.mesh) for _, _, actual in beside]
    floors = [np.maximum(one, TINY) for _, one, _ in beside]
    numbers = sum(
        truth.size for (step, _, _), (truth, _, _) in zip(keys, beside, strict=True) if step == last
    )
    if numbers < LEAST_NUMBERS * len(gradients) or not all(np.isfinite(value).all() for value in values):
        return None

    def errors(logarithms: Floats) -> Floats:
        """What the factors leave unexplained, in units of the rounding noise."""
        scaled = {
            name: [float(np.exp(one)) * step[name] for one, step in zip(logarithms, gradients, strict=True)]
            for name in clipped
        }
        off = [
            (value - _updates.updated(run, name, scaled[name][: step + 1])) / floor
            for (step, _, name), value, floor in zip(keys, values, floors, strict=True)
        ]
        return np.concatenate([one.ravel() for one in off])

    right = np.log(np.maximum(_updates.clipping(run, gradients), TINY))
    fitted = _fitted(errors, right)
    explained, off = np.abs(errors(fitted)) <= THRESHOLD, np.abs(errors(right)) > THRESHOLD
    return Factors(right=right, found=fitted) if explained.all() and off.any() else None


def _fitted(errors: Callable[[Floats], Floats], start: Floats) -> Floats:
    """The logarithms that leave the least unexplained, from `start` on."""
    at, now = start, errors(start)
    for _ in range(ROUNDS):
        slopes = [(errors(at + SLIGHTLY * one) - now) / SLIGHTLY for one in np.eye(len(at))]
        change = np.linalg.lstsq(np.stack(slopes, axis=1), -now, rcond=None)[0]
        change = np.clip(change, -MOST_CHANGE, MOST_CHANGE)
        after = errors(at + change)
        while float(after @ after) > float(now @ now) and np.abs(change).max() > SLIGHTLY:
            change /= 2.0
            after = errors(at + change)
        if float(after @ after) >= float(now @ now):
            break
        at, now = at + change, after
    return at

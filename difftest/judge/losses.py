"""The loss of every step of a run: what a reader wants to see of a training beside its verdict."""

import math

import msgspec

from difftest.judge import noise
from difftest.judge.noise import FLOORS_MOST
from difftest.judge.outcome import Failure, Outcome, Sharded
from difftest.judge.stage import Stage

LEAST_STEPS = 2
"""A run of fewer steps has no curve."""

DIGITS = 9
"""How many significant digits of a loss are kept."""

_LOSS = (Stage.FORWARD, "loss")


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """The loss of each step, as one of its ranks holds it.

    `noise` is how far rounding alone may move each; only the oracle knows it. Both are empty for a run that
    failed, and for one of fewer than `LEAST_STEPS` steps or whose losses are not one number each.
    """

    values: tuple[float, ...] = ()
    noise: tuple[float, ...] = ()


def losses(outcome: Outcome) -> Losses:
    """The losses of a run."""
    if isinstance(outcome, Failure) or len(outcome.steps) < LEAST_STEPS:
        return Losses()
    numbers = (_number(step.get(_LOSS)) for step in outcome.steps)
    values = [number for number in numbers if number is not None]
    if len(values) < len(outcome.steps):
        return Losses()
    floors = (float(noise.floor(step[_LOSS].pieces[0])) for step in outcome.noise if _LOSS in step)
    return Losses(values=tuple(map(_kept, values)), noise=tuple(map(_kept, floors)))


def _number(loss: Sharded | None) -> float | None:
    """The loss that a rank holds; None where it holds none, or a tensor of another size."""
    piece = next(iter(loss.pieces.values()), None) if loss else None
    return float(piece.item()) if piece is not None and piece.size == 1 else None


def _kept(value: float) -> float:
    """The value as JSON can hold it, which has neither infinity nor NaN."""
    if math.isnan(value):
        return FLOORS_MOST
    return float(f"{max(-FLOORS_MOST, min(FLOORS_MOST, value)):.{DIGITS}g}")

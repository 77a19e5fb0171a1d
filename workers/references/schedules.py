"""Schedules of the learning rate, by the formulas of torch's documentation and of the papers it names."""

import math
from collections.abc import Callable, Mapping

from difftest.cases.features.schedule import PERIOD, STEP_SIZE, WARM_UP, Kind, Options


def rate(options: Options, first: float, step: int) -> float:
    """The learning rate of step `step`, counted from 0, where training begins with `first`."""
    return RATES[options.kind](first, options.factor, step)


def _linear(first: float, factor: float, step: int) -> float:
    ramped = min(step, PERIOD) / PERIOD
    return first * ((1 - ramped) * factor + ramped)


def _cosine(first: float, factor: float, step: int, period: int = PERIOD) -> float:
    """That of Loshchilov and Hutter, 2017, from `first` to its least rate and back."""
    least = factor * first
    return least + (first - least) * (1 + math.cos(math.pi * step / period)) / 2


def _one_cycle(first: float, factor: float, step: int) -> float:
    """Up to `first` in step 3, and down until step 7."""
    off = (3 - step) / 3 if step < 3 else (step - 3) / 4  # noqa: PLR2004
    return first - (first - factor * first) * off


def _warmed(first: float, factor: float, step: int) -> float:
    return _linear(first, factor, step) if step < WARM_UP else _cosine(first, factor, step - WARM_UP)


RATES: Mapping[Kind, Callable[[float, float, int], float]] = {
    "step": lambda first, factor, step: first * math.prod([factor] * (step // STEP_SIZE)),
    "exponential": lambda first, factor, step: first * math.prod([factor] * step),
    "linear": _linear,
    "cosine": _cosine,
    "lambda": lambda first, factor, step: first / (1 + factor * step),
    "warmed": _warmed,
    "unwarmed": _cosine,
    "one_cycle": _one_cycle,
    "restarts": lambda first, factor, step: _cosine(first, factor, step % STEP_SIZE, STEP_SIZE),
    "polynomial": lambda first, factor, step: first * math.pow(max(0, PERIOD - step) / PERIOD, factor),
    "chained": lambda first, factor, step: first * math.prod([factor] * (step + (step < STEP_SIZE))),
}
"""By kind, the rate of the first one, the factor and the step."""

"""Schedules of the learning rate, by the formulas of torch's documentation and of the papers it names."""

import math

from difftest.cases.features.schedule import PERIOD, STEP_SIZE, Options


def rate(options: Options, first: float, step: int) -> float:
    """The learning rate of step `step`, counted from 0, where training begins with `first`.

    The cosine is that of Loshchilov and Hutter, 2017, from `first` to its least rate and back.
    """
    factor = options.factor
    match options.kind:
        case "step":
            return first * math.prod([factor] * (step // STEP_SIZE))
        case "exponential":
            return first * math.prod([factor] * step)
        case "linear":
            ramped = min(step, PERIOD) / PERIOD
            return first * ((1 - ramped) * factor + ramped)
        case "cosine":
            least = factor * first
            return least + (first - least) * (1 + math.cos(math.pi * step / PERIOD)) / 2
        case "lambda":
            return first / (1 + factor * step)

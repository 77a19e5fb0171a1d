"""A function of small numbers goes through a number near 1, whose rounding is left of it.

So log(1 + exp(-x)) and log(1 - x) are off by the roundoff of 1 and not by their own. A sum of many such
numbers has the sum of their errors. This is only a bound.
"""

import numpy as np

from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.predictions import _calls
from difftest.judge.stage import Stage

FUNCTIONS = ("logsigmoid", "binary_cross_entropy", "elu", "celu", "selu")

ROUNDOFFS = 4.0
"""The greatest error of one such number: it and its logarithm are rounded."""


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether no element of a program's result is off by more than the numbers near 1 that it is made of."""
    call = _calls.call_at(run, at)
    if at[1] is not Stage.FORWARD or not call or not call.function.endswith(FUNCTIONS):
        return False
    truth, _, _ = _calls.compared(run, at)
    tensors = list(call.tensors())
    weight = max([1.0, *(float(np.abs(tensor).max(initial=0.0)) for tensor in tensors[1:])])
    summed = max(1.0, max((tensor.size for tensor in tensors), default=1) / max(1, truth.size))
    return _calls.is_within(run, at, truth, ROUNDOFFS * _calls.roundoff(run) * weight * summed)

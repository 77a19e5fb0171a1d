"""The gradient of `hardtanh` and `relu6` passes at their bounds, where torch's is 0."""

import numpy as np

from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.noise import THRESHOLD
from difftest.judge.predictions import _calls
from difftest.judge.stage import Stage

BOUNDED, BOUNDS = ("nn.functional.hardtanh", "nn.functional.relu6"), 2


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether a gradient is wrong where it should be 0 alone, at no more than two values of the input."""
    call = _calls.call_at(run, at)
    if at[1] is not Stage.BACKWARD or not call or call.function not in BOUNDED:
        return False
    truth, floors, value = _calls.compared(run, at)
    inputs = next(call.tensors(), None)
    wrong = np.isfinite(floors) & ~(np.abs(value - truth) <= THRESHOLD * floors)
    if inputs is None or inputs.shape != truth.shape or not wrong.any():
        return False
    return not truth[wrong].any() and len(np.unique(inputs[wrong])) <= BOUNDS

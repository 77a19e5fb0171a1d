"""The gradient of `elu`, `celu` or `selu` takes the input for the result: x + a for a * exp(x) below 0."""

from collections.abc import Callable

import numpy as np

from difftest.judge.measured import Floats, Key, MeasuredRun
from difftest.judge.predictions import _calls
from difftest.judge.stage import Stage

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805

RATIOS: dict[str, Callable[[Floats, float], Floats]] = {
    "nn.functional.elu": lambda x, alpha: (x + alpha) / (alpha * np.exp(x)),
    "nn.functional.celu": lambda x, alpha: (x + alpha) / (alpha * np.exp(x / alpha)),
    "nn.functional.selu": lambda x, _alpha: (
        (x + SELU_ALPHA * SELU_SCALE) / (SELU_ALPHA * SELU_SCALE * np.exp(x))
    ),
}
"""The wrong gradient as a multiple of the right one, for negative inputs."""


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether a gradient is right above 0, and below it is that of the input taken for the result."""
    call = _calls.call_at(run, at)
    if at[1] is not Stage.BACKWARD or not call or call.function not in RATIOS:
        return False
    truth, _, _ = _calls.compared(run, at)
    inputs = next(call.tensors(), None)
    alpha = call.number("alpha", next(iter(call.plain_numbers()), 1.0))
    if inputs is None or inputs.shape != truth.shape or not alpha:
        return False
    with np.errstate(all="ignore"):
        wrong = truth * RATIOS[call.function](np.minimum(inputs, 0.0), alpha)
    return _calls.is_within(run, at, np.where(inputs > 0.0, truth, wrong))

"""A norm ignores its epsilon: an output changes by little, or by a moderate factor where inputs are tiny.

Without the epsilon a row is divided by its root mean square alone, and grows by the square root of one plus
the epsilon over the mean square. The layers behind it are not computed here, so that this is only a bound.
The norm of a program has nothing behind it.
"""

import numpy as np

from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.predictions import _calls
from difftest.judge.stage import Stage

SLIGHT = 1e-3
"""The greatest error in root mean squares of the output: an epsilon of 1e-6 beside rows of 0.02."""

MODERATE = 10.0
"""The same where rows are as small as 1e-4."""

RMS_NORM = "nn.functional.rms_norm"

SMALL_INPUTS = ("tiny", "zeros")
"""The regimes in which rows may be."""


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether the error of an output is within the bound."""
    if at[1] is not Stage.FORWARD:
        return False
    if run.case.model.is_program:
        return _is_without_epsilon(run, at)
    truth, _, actual = run.beside(at)
    error = float(np.abs(actual.full(run.case.layout.mesh) - truth).max(initial=0.0))
    most = MODERATE if run.case.data.regime in SMALL_INPUTS else SLIGHT
    return error <= most * float(np.sqrt(np.mean(truth**2)))


def _is_without_epsilon(run: MeasuredRun, at: Key) -> bool:
    """Whether the result of an RMS norm is that without its epsilon, over some of its last dims."""
    call = _calls.call_at(run, at)
    if not call or call.function != RMS_NORM or not (tensors := list(call.tensors())):
        return False
    truth, inputs = run.truth(at)[0], tensors[0]
    added = call.epsilon(2.0 * _calls.roundoff(run))
    if inputs.shape != truth.shape or not inputs.size:
        return False
    for dims in range(1, inputs.ndim + 1):
        squares = (inputs**2).mean(axis=tuple(range(-dims, 0)), keepdims=True)
        if squares.all() and _calls.is_within(run, at, truth * np.sqrt((squares + added) / squares)):
            return True
    return False

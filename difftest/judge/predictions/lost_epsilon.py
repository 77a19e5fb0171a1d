"""A norm forgets its epsilon: an output changes by little, or by a moderate factor where inputs are tiny.

Without the epsilon a row is divided by its root mean square alone, and grows by the square root of one plus
the epsilon over the mean square. The layers behind it are not computed here, so that this is only a bound.
"""

import numpy as np

from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.stage import Stage

SLIGHT = 1e-3
"""The greatest error in root mean squares of the output: an epsilon of 1e-6 beside rows of 0.02."""

MODERATE = 10.0
"""The same where rows are as small as 1e-4."""

SMALL_INPUTS = ("tiny", "zeros")
"""The regimes in which rows may be."""


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether the error of an output is within the bound."""
    if at[1] is not Stage.FORWARD:
        return False
    truth, _, actual = run.beside(at)
    error = float(np.abs(actual.full(run.case.layout.mesh) - truth).max(initial=0.0))
    most = MODERATE if run.case.data.regime in SMALL_INPUTS else SLIGHT
    return error <= most * float(np.sqrt(np.mean(truth**2)))

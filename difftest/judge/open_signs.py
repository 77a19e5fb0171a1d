"""Updates against gradients whose sign rounding does not decide.

Adam and its kind move a parameter by the learning rate whatever the size of its gradient. Where a gradient is
within its tolerance of 0, a correct run may have the other sign and move the parameter the other way, and the
oracle's few runs do not show that. Such elements are few; an update that is wrong moves nearly all of them.
"""

import numpy as np

from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.layout import ALONE
from difftest.judge import noise
from difftest.judge.elements import Bools
from difftest.judge.noise import Floats
from difftest.judge.outcome import Array, Trace
from difftest.judge.stage import Stage

MOST = 0.01
"""The greatest share of such elements that may have moved the other way; one element may in any tensor."""


def other_way(case: Case, expected: Trace, at: tuple[int, str], value: Array) -> Bools:
    """Which elements of a parameter are off because they moved the other way; none if they are too many.

    `at` is the step and the name, and `value` the whole parameter of a candidate after that step's update.
    """
    step, name = at
    key = Stage.UPDATE, name
    truth, tolerance = expected.steps[step][key].full(ALONE), _tolerance(expected, step, key)
    reach = np.zeros(truth.shape)
    before = numbers.weights(case).get(name)
    for earlier, tensors in enumerate(expected.steps[: step + 1]):
        after, gradient = tensors[key].full(ALONE), tensors.get((Stage.BACKWARD, name))
        if gradient is not None and before is not None:
            unclear = np.abs(gradient.full(ALONE)) <= _tolerance(expected, earlier, (Stage.BACKWARD, name))
            reach += np.where(unclear, 2.0 * np.abs(after - before), 0.0)
        before = after
    error = np.abs(np.asarray(value, np.float64) - truth)
    wrong = ~(error <= tolerance)
    moved = wrong & (error <= reach + tolerance)
    few = np.count_nonzero(moved) <= max(1.0, MOST * np.count_nonzero(reach > tolerance))
    return moved if few and not (wrong & ~moved).any() else np.zeros_like(moved)


def _tolerance(expected: Trace, step: int, key: tuple[Stage, str]) -> Floats:
    """By how much each element of a tensor may be off."""
    return noise.THRESHOLD * noise.floor(expected.noise[step][key].full(ALONE))

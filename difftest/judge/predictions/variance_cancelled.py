"""A norm takes the variance as E[x²] - E[x]²: what is left is off by the roundoff of the squares.

Which elements a norm takes together is read off its shape: the last dims, all but the channels, or groups of
channels. One of these ways must explain all elements. This is only a bound. XLA adds the epsilon as a float32
number, which counts as an error of the variance too.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from difftest.judge.measured import Floats, Key, MeasuredRun
from difftest.judge.noise import PRECISIONS, THRESHOLD
from difftest.judge.predictions import _calls
from difftest.judge.stage import Stage

EPSILON = 1e-5
"""That of torch's norms where none is given."""

SQUARES = 32.0
"""The greatest error of the mean of some squares, in units of their roundoff: it is a sum of many."""


TWO_DIMS = 2


class Bound(NamedTuple):
    """How far a norm may be off: in each number, and in each inverse deviation of what is taken together."""

    numbers: Floats
    inverses: Floats


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether every element of a norm is off by no more than the variance of its own numbers allows.

    Beside its numbers an operator may give the mean and the inverse deviation of what was taken together.
    """
    call = _calls.call_at(run, at)
    if at[1] is not Stage.FORWARD or not call or "_norm" not in call.function:
        return False
    if not (tensors := list(call.tensors())):
        return False
    inputs, others = tensors[0], tensors[1:]
    truth, floors, value = _calls.compared(run, at)
    if not inputs.size or not np.isfinite(inputs).all():
        return False
    off = np.where(np.isfinite(floors), np.abs(value - truth) - THRESHOLD * floors, 0.0)
    factor = max([1.0, *(float(np.abs(one).max(initial=0.0)) for one in others)])
    for numbers, inverses in _bounds(inputs, call.epsilon(EPSILON), _calls.roundoff(run)):
        if inputs.shape == truth.shape and bool((off <= factor * numbers).all()):
            return True
        if inputs.shape != truth.shape and truth.size == inverses.size:
            return bool((off.ravel() <= inverses).all())
    return False


def _bounds(inputs: Floats, epsilon: float, unit: float) -> Iterator[Bound]:
    """The bound for each way of taking numbers together."""
    for dims in range(1, inputs.ndim + 1):
        groups = inputs.reshape(int(np.prod(inputs.shape[: inputs.ndim - dims])), -1)
        yield _bound(groups, inputs.shape, epsilon, unit)
    if inputs.ndim < TWO_DIMS:
        return
    rows, channels = inputs.shape[:2]
    for count in (count for count in range(1, channels + 1) if channels % count == 0):
        yield _bound(inputs.reshape(rows * count, -1), inputs.shape, epsilon, unit)
    first = np.moveaxis(inputs, 1, 0)
    numbers, inverses = _bound(first.reshape(channels, -1), first.shape, epsilon, unit)
    yield Bound(np.moveaxis(numbers, 0, 1), inverses)


def _bound(groups: Floats, shape: tuple[int, ...], epsilon: float, unit: float) -> Bound:
    """The bound where each row is taken together."""
    mean, squares = groups.mean(1, keepdims=True), (groups**2).mean(1, keepdims=True)
    error = SQUARES * unit * squares + PRECISIONS["float32"].roundoff * epsilon
    least, right, most = (
        np.sqrt(np.maximum(groups.var(1, keepdims=True) + by, 0.0) + epsilon)
        for by in (-error, 0.0 * error, error)
    )
    inverse = np.maximum(1.0 / least - 1.0 / right, 1.0 / right - 1.0 / most)
    numbers = np.abs(groups - mean) * inverse + SQUARES * unit * np.sqrt(squares) / least
    return Bound(numbers.reshape(shape), inverse.ravel())

"""How far torch's own `full_tensor` is from what the ranks hold, in numbers that JSON has."""

import math

import numpy as np
import pytest

pytest.importorskip("torch")

from difftest.judge.noise import FLOORS_MOST
from difftest.judge.outcome import Array
from workers.torch.readers import distance

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("part", "far"),
    [
        (np.array([1.0, 2.5]), 1.5),
        (np.array([math.nan, 1.0]), FLOORS_MOST),
        (np.array([math.inf, 1.0]), FLOORS_MOST),
        (np.array([True, False]), FLOORS_MOST),
        (np.array([1.0]), FLOORS_MOST),
    ],
)
def test_what_cannot_be_subtracted_is_far_and_not_infinite(part: Array, far: float) -> None:
    assert distance(part, np.array([1.0, 1.0])) == far

"""Gradients are clipped by a norm to each part of which the 1e-6 of `clip_grad_norm_` was added.

Of n parts that are equal it is as if sqrt(n) times as much had been added, and less of others: the root of
the sum of (part + 1e-6)^2 is the norm and 1e-6 times the sum of the parts over the norm.
"""

import numpy as np

from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.predictions import another_norm

ADDED = 1e-6

SHARE = 0.2
"""By which share the effect may seem greater, for rounding."""


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether factors that are smaller by no more than that give all parameters up to the step."""
    norm, factors = run.case.training.clip_norm, another_norm.wrong_factors(run, at)
    if norm is None or factors is None:
        return False
    most = ADDED * (np.sqrt(run.case.world_size) - 1.0) * np.exp(factors.right) / norm
    less = factors.right - factors.found
    return bool((less >= -SHARE * most).all() and (less <= (1.0 + SHARE) * most).all())

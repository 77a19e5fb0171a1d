"""RAdam (Liu et al., 2020, algorithm 2): Adam that takes plain momentum until its second moment is known."""

import math

import numpy as np

from workers.references.optimizers import Floats, State, descent, moving

LEAST_LENGTH = 5
"""Above this length of the approximated average the second moment is used, as in torch's documentation."""


def updated(  # noqa: PLR0913  torch's options
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = False,
    maximize: bool = False,
) -> Floats:
    """Rectified by the length of the average that the second moment amounts to."""
    coupled = 0.0 if decoupled_weight_decay else weight_decay
    direction = descent(gradient, parameter, maximize=maximize, decay=coupled)
    first = moving(state, "first", direction, betas[0]) / (1 - betas[0] ** step)
    second = moving(state, "second", direction**2, betas[1])
    shrunk = parameter * (1 - lr * weight_decay) if decoupled_weight_decay else parameter
    kept = betas[1] ** step
    most = 2 / (1 - betas[1]) - 1
    length = most - 2 * step * kept / (1 - kept)
    if length <= LEAST_LENGTH:
        return shrunk - lr * first
    rectified = math.sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length))
    return shrunk - lr * first * rectified * math.sqrt(1 - kept) / (np.sqrt(second) + eps)

"""Adamax (Kingma and Ba, 2015, algorithm 2): Adam with the infinity norm."""

import numpy as np

from workers.references.optimizers import Floats, State, descent, moving


def updated(  # noqa: PLR0913  torch's options
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,
    lr: float = 2e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> Floats:
    """`eps` is added to the magnitude of every gradient, as torch's documentation has it."""
    direction = descent(gradient, parameter, maximize=maximize, decay=weight_decay)
    first = moving(state, "first", direction, betas[0]) / (1 - betas[0] ** step)
    decayed = betas[1] * state.get("greatest", np.zeros_like(direction))
    state["greatest"] = greatest = np.maximum(decayed, np.abs(direction) + eps)
    after: Floats = parameter - lr * first / greatest
    return after

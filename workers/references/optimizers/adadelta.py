"""Adadelta (Zeiler, 2012, algorithm 1)."""

import numpy as np

from workers.references.optimizers import Floats, State, descent, moving


def updated(  # noqa: PLR0913  torch's options
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,  # noqa: ARG001  the same at every step
    lr: float = 1.0,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> Floats:
    """In units of earlier steps: the root mean square of these over that of gradients."""
    direction = descent(gradient, parameter, maximize=maximize, decay=weight_decay)
    squares = moving(state, "squares", direction**2, rho)
    steps = state.get("steps", np.zeros_like(direction))
    change = np.sqrt(steps + eps) / np.sqrt(squares + eps) * direction
    moving(state, "steps", change**2, rho)
    after: Floats = parameter - lr * change
    return after

"""RMSprop (Tieleman and Hinton, lecture 6.5, 2012; centered: Graves, 2013), as torch documents it."""

import numpy as np

from workers.references.optimizers import Floats, State, descent, moving


def updated(  # noqa: PLR0913  torch's options
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,  # noqa: ARG001  the same at every step
    lr: float = 1e-2,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    centered: bool = False,
    maximize: bool = False,
) -> Floats:
    """Over the root of the average square, or `centered` of the variance, to which `eps` is added."""
    direction = descent(gradient, parameter, maximize=maximize, decay=weight_decay)
    squares = moving(state, "squares", direction**2, alpha)
    if centered:
        squares = squares - moving(state, "mean", direction, alpha) ** 2
    change = direction / (np.sqrt(squares) + eps)
    if momentum:
        state["velocity"] = change = momentum * state.get("velocity", 0.0) + change
    return parameter - lr * change

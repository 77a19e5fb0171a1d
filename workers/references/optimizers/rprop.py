"""Rprop (Riedmiller and Braun, 1993) without weight backtracking, as torch documents it."""

import numpy as np

from workers.references.optimizers import Floats, State, descent


def updated(  # noqa: PLR0913  torch's options
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,  # noqa: ARG001  the same at every step
    lr: float = 1e-2,
    etas: tuple[float, float] = (0.5, 1.2),
    step_sizes: tuple[float, float] = (1e-6, 50.0),
    maximize: bool = False,
) -> Floats:
    """A step of each element that grows while its gradient keeps its sign.

    Where the sign changes, the step shrinks and the gradient counts as 0, now and in the next step.
    """
    direction = descent(gradient, parameter, maximize=maximize)
    kept = np.sign(direction * state.get("gradient", 0.0))
    factor = np.where(kept > 0, etas[1], np.where(kept < 0, etas[0], 1.0))
    state["size"] = np.clip(state.get("size", lr) * factor, *step_sizes)
    state["gradient"] = direction = np.where(kept < 0, 0.0, direction)
    after: Floats = parameter - state["size"] * np.sign(direction)
    return after

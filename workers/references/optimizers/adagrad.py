"""Adagrad (Duchi, Hazan and Singer, 2011), in the form of torch's documentation."""

import numpy as np

from workers.references.optimizers import Floats, State, descent


def updated(  # noqa: PLR0913  torch's options
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,
    lr: float = 1e-2,
    lr_decay: float = 0.0,
    weight_decay: float = 0.0,
    initial_accumulator_value: float = 0.0,
    eps: float = 1e-10,
    maximize: bool = False,
) -> Floats:
    """Over the root of the sum of all squares."""
    direction = descent(gradient, parameter, maximize=maximize, decay=weight_decay)
    state["sum"] = state.get("sum", initial_accumulator_value) + direction**2
    after: Floats = parameter - lr / (1 + (step - 1) * lr_decay) * direction / (np.sqrt(state["sum"]) + eps)
    return after

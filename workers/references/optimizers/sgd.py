"""Stochastic gradient descent with momentum (Sutskever et al., 2013, in the form of torch's documentation).

The velocity begins as the first gradient, which dampening does not touch.
"""

from workers.references.optimizers import Floats, State, descent


def updated(  # noqa: PLR0913  torch's options
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,
    lr: float = 1e-3,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
) -> Floats:
    """Against the velocity; with `nesterov` against the gradient plus the velocity that it leads to."""
    direction = descent(gradient, parameter, maximize=maximize, decay=weight_decay)
    if momentum:
        first = step == 1
        velocity = direction if first else momentum * state["velocity"] + (1 - dampening) * direction
        state["velocity"] = velocity
        direction = direction + momentum * velocity if nesterov else velocity
    return parameter - lr * direction

"""NAdam (Dozat, 2016): Adam with Nesterov momentum and the paper's schedule of it."""

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
    momentum_decay: float = 4e-3,
    decoupled_weight_decay: bool = False,
    maximize: bool = False,
) -> Floats:
    """The momentum of step t is `beta * (1 - 0.96 ** (t * momentum_decay) / 2)`."""

    def momentum(at: int) -> float:
        return float(betas[0] * (1 - 0.5 * 0.96 ** (at * momentum_decay)))

    coupled = 0.0 if decoupled_weight_decay else weight_decay
    direction = descent(gradient, parameter, maximize=maximize, decay=coupled)
    first = moving(state, "first", direction, betas[0])
    second = moving(state, "second", direction**2, betas[1]) / (1 - betas[1] ** step)
    state["product"] = product = state.get("product", 1.0) * momentum(step)
    ahead = momentum(step + 1) * first / (1 - product * momentum(step + 1))
    along = ahead + (1 - momentum(step)) * direction / (1 - product)
    shrunk = parameter * (1 - lr * weight_decay) if decoupled_weight_decay else parameter
    after: Floats = shrunk - lr * along / (np.sqrt(second) + eps)
    return after

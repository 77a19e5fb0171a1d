"""Adam (Kingma and Ba, 2015, algorithm 1); AMSGrad (Reddi et al., 2018) keeps the greatest second moment."""

import numpy as np

from workers.references.optimizers import Floats, State, descent, moving


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
    amsgrad: bool = False,
    maximize: bool = False,
    decoupled_weight_decay: bool = False,
) -> Floats:
    """Along the corrected first moment over the root of the corrected second one, to which `eps` is added.

    A decoupled decay shrinks the weights; otherwise it is a part of the gradient.
    """
    coupled = 0.0 if decoupled_weight_decay else weight_decay
    direction = descent(gradient, parameter, maximize=maximize, decay=coupled)
    first = moving(state, "first", direction, betas[0]) / (1 - betas[0] ** step)
    second = moving(state, "second", direction**2, betas[1])
    if amsgrad:
        state["greatest"] = second = np.maximum(state.get("greatest", 0.0), second)
    root = np.sqrt(second / (1 - betas[1] ** step))
    shrunk = parameter * (1 - lr * weight_decay) if decoupled_weight_decay else parameter
    return shrunk - lr * first / (root + eps)

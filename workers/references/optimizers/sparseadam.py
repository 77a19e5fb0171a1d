"""SparseAdam: Adam (Kingma and Ba, 2015) for gradients that have few elements, in the paper's efficient form.

That form adds `eps` to the root of the second moment before its correction, as the end of the paper's section
2 has it, so that the steps are not quite those of Adam.
"""

import numpy as np

from workers.references.optimizers import Floats, State, descent


def updated(  # noqa: PLR0913  torch's options
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    maximize: bool = False,
) -> Floats:
    """Elements without a gradient, which are zeros here, keep their moments and their values."""
    there, direction = gradient != 0, descent(gradient, parameter, maximize=maximize)
    for name, kept, value in (("first", betas[0], direction), ("second", betas[1], direction**2)):
        before = state.get(name, np.zeros_like(value))
        state[name] = np.where(there, kept * before + (1 - kept) * value, before)
    rate = lr * np.sqrt(1 - betas[1] ** step) / (1 - betas[0] ** step)
    change = rate * state["first"] / (np.sqrt(state["second"]) + eps)
    return np.where(there, parameter - change, parameter)

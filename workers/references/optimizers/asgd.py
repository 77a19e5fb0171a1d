"""Averaged stochastic gradient descent (Polyak and Juditsky, 1992; Bottou's SGD for its schedule).

torch keeps the average beside the parameters and trains the parameters themselves, which are computed here.
"""

from workers.references.optimizers import Floats, State, descent


def updated(  # noqa: PLR0913  torch's options
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,
    lr: float = 1e-2,
    lambd: float = 1e-4,
    alpha: float = 0.75,
    t0: float = 1e6,  # noqa: ARG001  from where the average counts
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> Floats:
    """The weights decay by `lambd` of the rate, which is that of the step before: `lr` at first."""
    direction = descent(gradient, parameter, maximize=maximize, decay=weight_decay)
    rate = state.get("rate", lr)
    state["rate"] = lr / (1 + lambd * lr * step) ** alpha
    after: Floats = (1 - lambd * rate) * parameter - rate * direction
    return after

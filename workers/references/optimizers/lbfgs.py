"""L-BFGS (Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 7.5), with one evaluation a step.

That is torch's with `max_iter=1` and without a line search, over one parameter: over several, they are one
vector.
"""

import numpy as np

from workers.references.optimizers import Floats, State

CURVATURE = 1e-10
"""A pair of differences counts where their product is greater."""


def updated(  # noqa: PLR0913  torch's options
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,  # noqa: ARG001  the pairs say it
    lr: float = 1.0,
    max_iter: int = 1,  # noqa: ARG001  of a step
    tolerance_grad: float = 1e-7,
    tolerance_change: float = 1e-9,
    history_size: int = 100,
) -> Floats:
    """At first against the gradient, later against its product with the inverse Hessian."""
    if np.abs(gradient).max() <= tolerance_grad:
        return parameter
    pairs = state.setdefault("pairs", [])
    if "gradient" not in state:
        direction, rate = -gradient, min(1.0, 1 / np.abs(gradient).sum()) * lr
    else:
        change = gradient - state["gradient"]
        if (change * state["step"]).sum() > CURVATURE:
            pairs.append((change, state["step"]))
            del pairs[:-history_size]
        direction, rate = -_product(gradient, pairs), lr
    state["gradient"], state["step"] = gradient, rate * direction
    flat = (gradient * direction).sum() > -tolerance_change
    return parameter if flat else parameter + rate * direction


def _product(gradient: Floats, pairs: list[tuple[Floats, Floats]]) -> Floats:
    """The inverse Hessian's product with the gradient, from pairs of differences of gradients and points."""
    weights = list[float]()
    for change, moved in reversed(pairs):
        weights.append(float((moved * gradient).sum() / (change * moved).sum()))
        gradient = gradient - weights[-1] * change
    if pairs:
        change, moved = pairs[-1]
        gradient = gradient * ((change * moved).sum() / (change**2).sum())
    for (change, moved), weight in zip(pairs, reversed(weights), strict=True):
        gradient = gradient + moved * (weight - (change * gradient).sum() / (change * moved).sum())
    return gradient

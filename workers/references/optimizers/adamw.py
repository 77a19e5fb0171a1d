"""AdamW (Loshchilov and Hutter, 2019): Adam whose weights decay apart from the gradient."""

from typing import Any

from workers.references.optimizers import Floats, State, adam


def updated(
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,
    weight_decay: float = 1e-2,
    **options: Any,  # noqa: ANN401  Adam's
) -> Floats:
    """As Adam, with the decoupled decay."""
    decay = {"weight_decay": weight_decay, "decoupled_weight_decay": True}
    return adam.updated(parameter, gradient, state, step=step, **{**options, **decay})

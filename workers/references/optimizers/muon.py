"""Muon (Jordan et al., 2024): momentum of matrices, made nearly orthogonal by Newton and Schulz's iteration.

torch computes the iteration in bfloat16 whatever the dtype, which is no part of this definition.
"""

import numpy as np

from workers.references.optimizers import Floats, State, moving


def updated(  # noqa: PLR0913  torch's options
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,  # noqa: ARG001  no part depends on it
    lr: float = 1e-3,
    weight_decay: float = 0.1,
    momentum: float = 0.95,
    nesterov: bool = True,
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
    eps: float = 1e-7,
    ns_steps: int = 5,
    adjust_lr_fn: str | None = None,
) -> Floats:
    """The rate grows with the root of rows over columns, or is that of AdamW's steps."""
    velocity = moving(state, "velocity", gradient, momentum)
    direction = momentum * velocity + (1 - momentum) * gradient if nesterov else velocity
    rows, columns = parameter.shape
    if adjust_lr_fn == "match_rms_adamw":
        rate = lr * 0.2 * np.sqrt(max(rows, columns))
    else:
        rate = lr * np.sqrt(max(1.0, rows / columns))
    along = _orthogonal(direction, ns_coefficients, eps, ns_steps)
    after: Floats = parameter * (1 - lr * weight_decay) - rate * along
    return after


def _orthogonal(matrix: Floats, coefficients: tuple[float, float, float], least: float, steps: int) -> Floats:
    """A polynomial of odd powers of the singular values, several times; the shorter side comes first."""
    one, three, five = coefficients
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / max(float(np.linalg.norm(wide)), least)
    for _ in range(steps):
        products = wide @ wide.T
        wide = one * wide + (three * products + five * products @ products) @ wide
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T

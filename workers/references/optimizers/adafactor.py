"""Adafactor (Shazeer and Stern, 2018, algorithms 4 and 5), with the rate of torch's documentation."""

import numpy as np

from workers.references.optimizers import Floats, State, descent, moving


def updated(  # noqa: PLR0913  torch's options
    parameter: Floats,
    gradient: Floats,
    state: State,
    *,
    step: int,
    lr: float = 1e-2,
    beta2_decay: float = -0.8,
    eps: tuple[float | None, float] = (None, 1e-3),
    d: float = 1.0,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> Floats:
    """The second moment of a matrix is the product of its rows' means and its columns', over that of all."""
    direction = descent(gradient, parameter, maximize=maximize)
    least = float(np.finfo(np.float64).eps) if eps[0] is None else eps[0]
    rate = max(eps[1], _rms(parameter)) * min(lr, 1 / np.sqrt(step))
    kept, squares = 1 - step**beta2_decay, direction**2
    if direction.ndim > 1:
        rows = moving(state, "rows", squares.mean(-1, keepdims=True), kept)
        columns = moving(state, "columns", squares.mean(-2, keepdims=True), kept)
        second = rows * columns / np.maximum(rows.mean(-2, keepdims=True), least)
    else:
        second = moving(state, "second", squares, kept)
    change = direction / np.maximum(np.sqrt(second), least)
    updated: Floats = parameter * (1 - lr * weight_decay) - rate * change / max(1.0, _rms(change) / d)
    return updated


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0

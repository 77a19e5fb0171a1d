"""Gradients clipped by norms and by value, by torch's documentation (Pascanu et al., 2013, for norms)."""

from collections.abc import Mapping

import numpy as np

from workers.references.optimizers import Floats

EPSILON = 1e-6
"""What the documentation's formula adds to a norm."""


def by_norm(gradients: Mapping[str, Floats], most: float, order: float = 2.0) -> dict[str, Floats]:
    """Scaled so that the norm of the norms of all of them is at most `most`."""
    sized = (gradient.ravel() for gradient in gradients.values() if gradient.size)
    norms = [float(np.linalg.norm(gradient, order)) for gradient in sized]
    norm = float(np.linalg.norm(np.array(norms or [0.0]), order))
    factor = min(1.0, most / (norm + EPSILON))
    return {name: gradient * factor for name, gradient in gradients.items()}


def by_value(gradients: Mapping[str, Floats], most: float) -> dict[str, Floats]:
    """Every element between -`most` and `most`."""
    return {name: np.clip(gradient, -most, most) for name, gradient in gradients.items()}

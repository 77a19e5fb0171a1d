"""Weight normalization (Salimans and Kingma, 2016): a magnitude and a direction for each output."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Context, projected


def computed(_arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """The direction is divided by the norm of its row."""
    magnitude = context.own("linear.parametrizations.weight.original0")
    direction = context.own("linear.parametrizations.weight.original1")
    norms = context.numpy.sqrt((direction**2).sum(1, keepdims=True))
    return projected(inputs, magnitude * direction / norms, context.own("linear.bias"))

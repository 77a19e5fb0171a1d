"""Low-rank adaptation (Hu et al., 2021) of a linear layer."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Context, projected


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """`base(x) + alpha / rank * up(down(x))`."""
    base = projected(inputs, context.own("base.weight"), context.own("base.bias"))
    correction = projected(projected(inputs, context.own("down.weight")), context.own("up.weight"))
    return base + arguments["alpha"] / arguments["rank"] * correction

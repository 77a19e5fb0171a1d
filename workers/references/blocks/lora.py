"""Low-rank adaptation (Hu et al., 2021) of a linear layer."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Given, projected


def computed(arguments: Mapping[str, Any], inputs: Array, given: Given) -> Array:
    """`base(x) + alpha / rank * up(down(x))`."""
    base = projected(inputs, given.own("base.weight"), given.own("base.bias"))
    correction = projected(projected(inputs, given.own("down.weight")), given.own("up.weight"))
    return base + arguments["alpha"] / arguments["rank"] * correction

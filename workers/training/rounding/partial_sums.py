"""The size of the partial sums of any operator that adds products."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from workers.training.rounding.convolutions import CONVOLUTIONS
from workers.training.rounding.products import PRODUCTS


def partial_sums(
    name: str, at: float, args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[Tensor | None, ...]:
    """The size of the partial sums of each result, with either sign, at a place from 0 to 1.

    None for a result with few terms. There are no results where no products are added.
    """
    name = name.removesuffix("_")
    if name not in PRODUCTS.keys() | CONVOLUTIONS.keys() or args[0].dtype != torch.float64:
        return ()
    if name in CONVOLUTIONS:
        return CONVOLUTIONS[name](at, args)
    size = PRODUCTS[name](at, *args[-2:])
    alpha = options.get("alpha", 1.0)
    return (size if size is None or alpha == 1.0 else size.mul_(alpha),)

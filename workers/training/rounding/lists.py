"""Operators of lists of tensors, such as `_foreach_add`: each is an operator of tensors on every element."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from workers.training.rounding import Overload, operator_name

PREFIX = "_foreach_"

SINGLE = {
    "max": "amax",
    "norm": "linalg_vector_norm",
    "maximum": "clamp_min",
    "maximum_": "clamp_min_",
    "minimum": "clamp_max",
    "minimum_": "clamp_max_",
}
"""The operators of tensors that have another name than those of lists; `maximum` itself takes no number."""

WITH_FACTOR = ("addcdiv", "addcmul")
"""The operators of three tensors. A factor after these has to be given by its name, `value`."""


def takes_lists(func: Overload) -> bool:
    """Whether `on_each` can compute it."""
    return operator_name(func).startswith(PREFIX)


def on_each(func: Overload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor] | None:
    """What `func` computes, element by element; None where it writes into its first list."""
    name = operator_name(func).removeprefix(PREFIX)
    operator, results = getattr(torch.ops.aten, SINGLE.get(name, name)), list[Tensor]()
    for index in range(len(args[0])):
        own = [argument[index] if isinstance(argument, list | tuple) else argument for argument in args]
        options = dict(kwargs)
        if name.removesuffix("_") in WITH_FACTOR and (factors := own[3:]):
            factor, own = factors[0], own[:3]
            options["value"] = factor[index].item() if isinstance(factor, Tensor) else factor
        results.append(operator(*own, **options))
    return None if func._schema.is_mutable else results  # noqa: SLF001  no public name

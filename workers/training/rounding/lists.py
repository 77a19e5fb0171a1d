"""Operators of lists of tensors, such as `_foreach_add`: each is an operator of tensors on every element."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from workers.training.rounding import Overload, operator_name

PREFIX = "_foreach_"

SINGLE = {"max": "amax", "norm": "linalg_vector_norm"}
"""The operators of tensors that have another name than those of lists."""

WITH_FACTOR = ("addcdiv", "addcmul")
"""The operators of three tensors. A factor after these has to be given by its name, `value`."""


def takes_lists(func: Overload) -> bool:
    """Whether `on_each` can compute it."""
    return operator_name(func).startswith(PREFIX)


def on_each(func: Overload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor] | None:
    """What `func` computes, element by element; None where it writes into its first list."""
    name = operator_name(func).removeprefix(PREFIX)
    operator, results = _of_tensors(name), list[Tensor]()
    for index in range(len(args[0])):
        given = [one[index] if isinstance(one, list | tuple) else one for one in args]
        options = dict(kwargs)
        if name.removesuffix("_") in WITH_FACTOR and (factors := given[3:]):
            factor, given = factors[0], given[:3]
            options["value"] = factor[index].item() if isinstance(factor, Tensor) else factor
        results.append(operator(*given, **options))
    return None if func._schema.is_mutable else results  # noqa: SLF001  no public name


def _of_tensors(name: str) -> Callable[..., Tensor]:
    """The operator of tensors; `maximum_` and `minimum_` exist for lists alone."""
    operator: Callable[..., Tensor] | None = getattr(torch.ops.aten, SINGLE.get(name, name), None)
    if operator:
        return operator
    computed = getattr(torch.ops.aten, name.removesuffix("_"))
    return lambda first, *rest: first.copy_(computed(first, *rest))

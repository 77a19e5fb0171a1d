"""Operators without a float64 kernel, in operators that have one: what the oracle computes in their place."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor


def _grouped_product(
    self: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """One product of matrices for each group.

    `offs` are the ends of the groups along the dim that both, or the only one, of the operands without a dim
    of groups has: its rows (2-D by 3-D), its columns (3-D by 2-D), or the dim that is summed over (2-D by
    2-D). Rows and columns of no group are zeros.
    """
    if offs is None:
        product = self @ mat2
    elif self.dim() == mat2.dim():
        product = torch.stack([self[:, at] @ mat2[at] for at in _slices(offs)])
    elif mat2.dim() > self.dim():
        rows = [self[at] @ mat2[group] for group, at in enumerate(_slices(offs))]
        product = _padded(torch.cat(rows), 0, len(self))
    else:
        columns = [self[group] @ mat2[:, at] for group, at in enumerate(_slices(offs))]
        product = _padded(torch.cat(columns, 1), 1, mat2.shape[1])
    product = product if bias is None else product + bias
    return product if out_dtype is None else product.to(out_dtype)


def _slices(ends: Tensor) -> list[slice]:
    return [slice(*pair) for pair in pairwise([0, *ends.tolist()])]


def _padded(tensor: Tensor, dim: int, size: int) -> Tensor:
    missing = list(tensor.shape)
    missing[dim] = size - tensor.shape[dim]
    return torch.cat([tensor, tensor.new_zeros(missing)], dim) if missing[dim] else tensor


_BY_NAME: Mapping[str, Callable[..., Any]] = {"_grouped_mm": _grouped_product}

DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {
    getattr(torch.ops.aten, name): function
    for name, function in _BY_NAME.items()
    if hasattr(torch.ops.aten, name)  # not in every release of torch
}
"""By the operator, without its overload."""

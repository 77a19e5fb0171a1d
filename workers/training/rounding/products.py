"""The partial sums of products: how large they are, which says how far adding term by term may be off.

torch and XLA on CPU add up to some 256 products one after another, in float32 where the dtype is a half type.
Each partial sum is rounded, however little of it is left in the result. Where a product is added to a bias,
the sum may begin with the bias, so that each partial sum is as large.

A simulated run looks at one place of the sum, and further runs at other places: that costs half a product.
All partial sums would need as much memory as there are terms. Over 8 to 256 terms in float32, the real errors
of torch and of XLA are 0.4 to 0.85 of the noise; over 1024 terms, which both add in blocks, 0.2 to 0.4.
"""

import math
from collections.abc import Callable, Mapping

from torch import Tensor

FEW_TERMS = 16
"""Perturbed factors say enough about the partial sums of a product with at most this many terms."""

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
"""Its multiples, modulo 1, are spread evenly over the unit interval, however many they are."""


def place(seed: int) -> float:
    """The place of the sum that a run looks at, from 0 (its first term) to 1."""
    return (0.5 + seed * GOLDEN) % 1.0


def _partial(at: float, one: Tensor, other: Tensor) -> tuple[Tensor, int] | None:
    """A partial sum of each element of `one @ other`, and the number of partial sums; None for few terms."""
    number = one.shape[-1] - 1  # the last is the element itself, whose rounding every operator has
    if number < FEW_TERMS:
        return None
    end = 1 + int(at * number)
    return one[..., :end] @ other[..., :end, :], number


def _matrix_vector(at: float, matrix: Tensor, vector: Tensor) -> tuple[Tensor, int] | None:
    column = _partial(at, matrix, vector.unsqueeze(-1))
    return column and (column[0].squeeze(-1), column[1])


def _dot(at: float, one: Tensor, other: Tensor) -> tuple[Tensor, int] | None:
    row = _matrix_vector(at, one.unsqueeze(0), other)
    return row and (row[0].squeeze(0), row[1])


PRODUCTS: Mapping[str, Callable[[float, Tensor, Tensor], tuple[Tensor, int] | None]] = {
    "mm": _partial,
    "bmm": _partial,
    "mv": _matrix_vector,
    "dot": _dot,
    "addmm": _partial,
    "baddbmm": _partial,
    "addbmm": lambda at, one, other: _partial(at, one.movedim(0, 1).flatten(1), other.flatten(0, 1)),
    "addmv": _matrix_vector,
}
"""A partial sum and their number, from a place and both factors, which are the last two arguments."""

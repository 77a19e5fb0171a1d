"""The intermediate results of operators: how large they are, which says how far rounding them may be off.

Intermediate results are rounded however little of them is left in the result. Some operators subtract inside.
Some may add term by term in the dtype itself (XLA on CPU does; torch adds in pairs, in float32). gelu is
x (1 + erf) / 2, so far left of 0 its error is the error of erf times x.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from workers.training.rounding import ELEMENTARY_ROUNDOFFS

Sizes: TypeAlias = Callable[..., tuple[Tensor, ...]]
"""From an operator's result and its arguments to the size of the intermediate results, for each result."""


def partial_sums_over(terms: Tensor, dim: Sequence[int] | int | None) -> Tensor:
    """The size of the partial sums over `dim`, or over all dims when it is None.

    That is the root of the sum of their squares, without the reduced dims. Each partial sum is rounded once,
    and the errors do a random walk: N. Higham, Accuracy and Stability of Numerical Algorithms, 2002, section
    4.2.
    """
    dims = [dim] if isinstance(dim, int) else list(dim or range(terms.dim()))
    if not dims:
        return terms.abs()
    last = terms.movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims))
    return last.cumsum(-1).square_().sum(-1).sqrt_()


def _partial_rows(gradient: Tensor, indices: Tensor, rows: int) -> Tensor:
    """The size of the partial sums of each of `rows` rows, to which the rows of `gradient` are added."""
    chosen = torch.nn.functional.one_hot(indices.flatten(), rows).to(gradient.dtype).unsqueeze(-1)
    added = gradient.reshape(-1, 1, gradient.shape[-1])  # a scalar index has one row, and no dim for it
    return ((chosen * added).cumsum(0) * chosen).square_().sum(0).sqrt_()


SIZES: Mapping[str, Sizes] = {
    "_log_softmax": lambda _result, inputs, dim, *_: (inputs.abs().amax(dim, keepdim=True),),
    "gelu": lambda _result, inputs, *_, **__: (inputs.abs() * ELEMENTARY_ROUNDOFFS,),
    "gelu_backward": lambda _result, gradient, *_, **__: (gradient.abs() * ELEMENTARY_ROUNDOFFS,),
    "sum": lambda result, terms, dim=None, *_, **__: (partial_sums_over(terms, dim).reshape(result.shape),),
    "mean": lambda result, terms, dim=None, *_, **__: (
        partial_sums_over(terms, dim).reshape(result.shape) * result.numel() / terms.numel(),
    ),
    "embedding_dense_backward": lambda result, gradient, indices, *_: (
        _partial_rows(gradient, indices, len(result)),
    ),
}
"""The sizes for each result, from the result and the arguments."""


def _of_one_sign(result: Tensor, terms: Tensor, power: float = 1.0) -> Tensor:
    """The size of the partial sums of a result of which the `power` is a sum of terms of one sign.

    Where the terms are equal, the root of the sum of the squares of n partial sums is the root of n / 3 times
    the sum.
    """
    number = terms.numel() / max(1, result.numel())
    return result.abs() * (math.sqrt(number / 3.0) / power)


def _norm(
    result: Tensor, terms: Tensor, power: float | None = 2.0, *_: object, **__: object
) -> tuple[Tensor]:
    """Norms of infinite order are the greatest or the least element, and that of order 0 counts."""
    order = 2.0 if power is None else abs(power)
    return (_of_one_sign(result, terms, order or math.inf),)


SIZES_IN_PROGRAMS: Mapping[str, Sizes] = {
    **SIZES,
    "var": lambda result, terms, *_, **__: (_of_one_sign(result, terms),),
    "std": lambda result, terms, *_, **__: (_of_one_sign(result, terms, 2.0),),
    "linalg_vector_norm": _norm,
    "norm": _norm,
    "dist": lambda result, terms, _other, power=2.0: _norm(result, terms, power),
    "mse_loss": lambda result, terms, *_, **__: (_of_one_sign(result, terms),),
    "smooth_l1_loss": lambda result, terms, *_, **__: (_of_one_sign(result, terms),),
    "huber_loss": lambda result, terms, *_, **__: (_of_one_sign(result, terms),),
}
"""The same for programs. The verdicts of models, which clip gradients by their norm, stay what they are."""


def _lerp(start: Tensor, end: Tensor, weight: Tensor | float) -> Tensor:
    return (weight * (end - start)).abs()


def _ratio(_self: Tensor, one: Tensor, other: Tensor, *, value: float = 1.0) -> Tensor:
    return (value * one / other).abs().nan_to_num_(0.0, 0.0, 0.0)


def _addend(_self: Tensor, other: Tensor | float, *, alpha: float = 1) -> Tensor:
    size = alpha * other if alpha != 1 else 0.0
    return torch.as_tensor(size, dtype=torch.float64).abs()


def _softmax_gradient(gradient: Tensor, output: Tensor, dim: int, _dtype: torch.dtype) -> Tensor:
    """Output * (gradient - sum(gradient * output)), whose difference may cancel."""
    return output.abs() * (gradient.abs() + (gradient * output).abs().sum(dim, keepdim=True))


ADDENDS: Mapping[str, Callable[..., Tensor]] = {
    "add": _addend,
    "sub": _addend,
    "rsub": lambda self, _other, alpha=1: _addend(self, self, alpha=alpha),
    "lerp": _lerp,
    "addcmul": lambda _self, one, other, value=1.0: (value * one * other).abs(),
    "addcdiv": _ratio,
    "_softmax_backward_data": _softmax_gradient,
}
"""The size of an addend that is rounded before it is added, from the arguments alone: for programs.

Optimizers use these operators too. The verdicts of cases with optimizers stay what they are.
"""

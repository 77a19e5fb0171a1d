"""The size of the partial sums of any operator that adds products; `products` has those of matrix products.

A run looks at one place of the sums: what comes after it is zero.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from workers.training.rounding.products import FEW_TERMS, PRODUCTS


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
    return (_product(name, at, args, options),)


def _product(name: str, at: float, args: Sequence[Any], options: Mapping[str, Any]) -> Tensor | None:
    """A partial sum of a product, begun with what it is added to, times the root of their number.

    Its square is in the mean over all places the sum of the squares of the partial sums. None if there are
    few terms.
    """
    *added, one, other = args
    partial = PRODUCTS[name](at, one, other)
    if partial is None:
        return None
    size, number = partial
    if added:
        size = size.mul_(options.get("alpha", 1.0)) + added[0] * options.get("beta", 1.0)
    return size.mul_(math.sqrt(number))


def _convolution(at: float, args: Sequence[Any]) -> tuple[Tensor | None]:
    """The size of the partial sums of `aten::convolution` at a place from 0 to 1; None if they are few."""
    inputs, weight, bias, stride, *rest = args
    transposed, groups = rest[2], rest[-1]
    part, terms = _weight_up_to(at, weight, groups if transposed else 0)
    partial_sums = _partial_sums(terms, stride if transposed else ())
    if not partial_sums:
        return (None,)
    return (torch.ops.aten.convolution(inputs, part, bias, stride, *rest).mul_(partial_sums),)


def _convolution_backward(
    at: float, args: Sequence[Any]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The same for `aten::convolution_backward`: the gradients of the input, the weight and the bias."""
    gradient, inputs, weight, biases, stride, *rest = args
    transposed, groups, wanted = rest[2], rest[-2], rest[-1]
    options, results = (biases, stride, *rest[:-1]), list[Tensor | None]([None, None, None])
    part, terms = _weight_up_to(at, weight, 0 if transposed else groups)
    partial_sums = _partial_sums(terms, () if transposed else stride)
    if wanted[0] and partial_sums:
        mask = [True, False, False]
        own = torch.ops.aten.convolution_backward(gradient, inputs, part, *options, mask)[0]
        results[0] = own.mul_(partial_sums)
    places, positions = (one.numel() // max(1, one.shape[1]) for one in (gradient, inputs))
    if (wanted[1] or wanted[2]) and places > FEW_TERMS:
        beginning = gradient * _up_to(at, places, [gradient.shape[0], 1, *gradient.shape[2:]])
        mask = [False, wanted[1], wanted[2]]
        own = torch.ops.aten.convolution_backward(beginning, inputs, weight, *options, mask)
        for at_result, terms in ((1, min(places, positions)), (2, places)):
            partial_sums = _partial_sums(terms, ())
            if wanted[at_result] and partial_sums:
                results[at_result] = own[at_result].mul_(partial_sums)
    return results[0], results[1], results[2]


def _weight_up_to(at: float, weight: Tensor, groups: int) -> tuple[Tensor, int]:
    """The weight without the terms after a place, and their number.

    The terms are those of the second dim and of the kernel, or where `groups` is not 0, of a group of the
    first dim and of the kernel.
    """
    kernel = weight.shape[2:]
    channels = weight.shape[0] // groups if groups else weight.shape[1]
    terms = channels * math.prod(kernel)
    kept = _up_to(at, terms, [channels, 1, *kernel] if groups else [1, channels, *kernel])
    return weight * (kept.repeat(groups, *[1] * (weight.dim() - 1)) if groups else kept), terms


def _up_to(at: float, terms: int, shape: Sequence[int]) -> Tensor:
    """Ones up to a place, and zeros after it."""
    return (torch.arange(terms) < 1 + int(at * (terms - 1))).double().view(*shape)


def _partial_sums(terms: int, stride: Sequence[int]) -> float:
    """The root of the number of partial sums, 0 for few; with a stride, fewer terms meet in an element."""
    number = terms / math.prod(stride) - 1
    return math.sqrt(number) if number >= FEW_TERMS else 0.0


CONVOLUTIONS: Mapping[str, Callable[[float, Sequence[Any]], tuple[Tensor | None, ...]]] = {
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
}
"""The sizes for each result, from a place and the operator's arguments."""

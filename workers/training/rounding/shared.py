"""Errors that many elements share, because an operator rounds one number for all of them.

Where n elements are added, errors that are drawn for every element grow as the root of n. One that they share
grows as n. The gradient of a bias ahead of a batch norm is such a sum.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from workers.training.rounding.sizes import partial_sums_over


class Shared(NamedTuple):
    """An error of `size` roundoffs, drawn once for each element of `size`.

    It is added to `result`, times `factor`; the shape of `size` can be broadcast to theirs.
    """

    result: Tensor
    size: Tensor
    factor: Tensor | float = 1.0


def shared_errors(name: str, results: Any, args: Sequence[Any]) -> list[Shared]:  # noqa: ANN401  any operator's
    """The errors in what an operator has returned or written to; none where it computes in no float64."""
    errors = SHARED.get(name)
    return errors(results, args) if errors and args[0].dtype == torch.float64 and args[0].numel() else []


def _running_mean(_results: object, args: Sequence[Any]) -> list[Shared]:
    """The partial sums of the batch's share of the running mean, which batch norm writes to.

    The batch's mean itself is subtracted from its terms, which makes little of its error.
    """
    terms, _, _, mean, _, training, momentum, _ = args
    if not training or mean is None:
        return []
    share = momentum * mean.numel() / terms.numel()
    return [Shared(mean, partial_sums_over(terms, _all_but_channels(terms)) * share)]


def _batch_norm_gradient(results: Sequence[Tensor], args: Sequence[Any]) -> list[Shared]:
    gradient, inputs, weight, _, _, mean, scale, training, _, wanted = args
    if not training or not wanted[0]:
        return []
    beside = (1, -1, *[1] * (inputs.dim() - 2))
    terms = gradient if weight is None else gradient * weight.reshape(beside)
    mean, scale = mean.reshape(beside), scale.reshape(beside)
    return _means(results[0], terms, (inputs - mean) * scale, scale, _all_but_channels(inputs))


def _group_norm_gradient(results: Sequence[Tensor], args: Sequence[Any]) -> list[Shared]:
    gradient, inputs, mean, scale, weight, rows, _, _, groups, wanted = args
    if not wanted[0]:
        return []
    terms = gradient if weight is None else gradient * weight.reshape(1, -1, *[1] * (inputs.dim() - 2))
    result, terms, inputs = (one.reshape(rows, groups, -1) for one in (results[0], terms, inputs))
    mean, scale = mean.reshape(rows, groups, 1), scale.reshape(rows, groups, 1)
    return _means(result, terms, (inputs - mean) * scale, scale, [-1])


def _layer_norm_gradient(results: Sequence[Tensor], args: Sequence[Any]) -> list[Shared]:
    gradient, inputs, shape, mean, scale, weight, _, wanted = args
    if not wanted[0]:
        return []
    terms = gradient if weight is None else gradient * weight
    return _means(results[0], terms, (inputs - mean) * scale, scale, [*range(-len(shape), 0)])


def _means(result: Tensor, terms: Tensor, normed: Tensor, scale: Tensor, dims: Sequence[int]) -> list[Shared]:
    """The partial sums of both means over `dims` in the gradient of a normalisation's input.

    That is scale * (g - mean(g) - x mean(g x)) with the normalised input x and the terms g (S. Ioffe and
    C. Szegedy, Batch Normalization, 2015, section 3).
    """
    share = scale.abs() * scale.numel() / terms.numel()
    both = [
        partial_sums_over(summed, dims).reshape(scale.shape) * share for summed in (terms, terms * normed)
    ]
    return [Shared(result, both[0]), Shared(result, both[1], normed)]


def _all_but_channels(tensor: Tensor) -> list[int]:
    return [0, *range(2, tensor.dim())]


SHARED: Mapping[str, Callable[[Any, Sequence[Any]], list[Shared]]] = {
    "native_batch_norm": _running_mean,
    "native_batch_norm_backward": _batch_norm_gradient,
    "native_group_norm_backward": _group_norm_gradient,
    "native_layer_norm_backward": _layer_norm_gradient,
}
"""The errors from an operator's results and arguments."""

"""Errors that many elements share, because an operator rounds one number for all of them.

Where n elements are added, errors that are drawn for every element grow as the root of n. One that they share
grows as n. The gradient of a bias ahead of a batch norm is such a sum.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from workers.training.rounding.sizes import partial_sums_over

FLAT = torch.finfo(torch.float32).eps / 2
"""How near to 1 a result is that rounds to it."""

FLAT_ROUNDOFFS = 4.0
"""By how many roundoffs such results are off together: two units in the last place, as each may be."""


class SharedRounding(NamedTuple):
    """An error of `size` roundoffs, drawn once for each element of `size`.

    It is added to each of the results, times the factor beside it; its shape can be broadcast to theirs.
    """

    size: Tensor
    results: Sequence[tuple[Tensor, Tensor | float]]


def shared_errors(name: str, results: Any, args: Sequence[Any]) -> list[SharedRounding]:  # noqa: ANN401  any operator's
    """The errors in what an operator has returned or written to; none where it computes in no float64."""
    errors = SHARED.get(name)
    return errors(results, args) if errors and args[0].dtype == torch.float64 and args[0].numel() else []


def _layer_norm(results: Sequence[Tensor], args: Sequence[Any]) -> list[SharedRounding]:
    output, mean, scale = results
    size = _lost(mean, scale, output.numel())
    return [SharedRounding(size, [(output, _without(args[3], output)), (scale, scale)])]


def _group_norm(results: Sequence[Tensor], args: Sequence[Any]) -> list[SharedRounding]:
    output, mean, scale = results
    bias, groups = args[2], args[6]
    normed = _without(None if bias is None else _of_channels(bias, output), output)
    in_groups, mean, scale = output.unflatten(1, (groups, -1)), _before(mean, output), _before(scale, output)
    size = _lost(mean, scale, output.numel())
    return [SharedRounding(size, [(in_groups, normed.unflatten(1, (groups, -1))), (scale, scale)])]


def _batch_norm(results: Sequence[Tensor], args: Sequence[Any]) -> list[SharedRounding]:
    """Besides the variance, the partial sums of the batch's share of the running mean.

    The batch's mean itself is subtracted from its terms, which makes little of its error.
    """
    terms, _, bias, running_mean, running_variance, training, momentum, _ = args
    if not training:
        return []
    output, number = results[0], terms.numel() / results[1].numel()
    mean, scale = (_of_channels(result, terms) for result in results[1:])
    normed = _without(None if bias is None else _of_channels(bias, terms), output)
    of_variance: list[tuple[Tensor, Tensor]] = [(output, normed), (scale, scale)]
    of_mean = list[tuple[Tensor, float]]()
    if running_mean is not None:
        of_mean.append((_of_channels(running_mean, terms), momentum / number))
        factor = -2.0 * momentum * number / max(1.0, number - 1.0) / scale**2
        of_variance.append((_of_channels(running_variance, terms), factor))
    sums = partial_sums_over(terms, _all_but_channels(terms)).reshape(scale.shape)
    return [SharedRounding(_lost(mean, scale, terms.numel()), of_variance), SharedRounding(sums, of_mean)]


def _lost(mean: Tensor, scale: Tensor, elements: int) -> Tensor:
    """The relative error of a reciprocal standard deviation, `scale`, of all `elements` of a tensor.

    The variance may be computed as E[x^2] - E[x]^2, as XLA does. Each of both is off by the partial sums of n
    nearly equal terms, which are the root of n / 3 times a mean, E[x]^2 by those of two factors, and by one
    more roundoff; and so is the variance, by (mean / deviation)^2 times as many of its own roundoffs.
    """
    number = elements / scale.numel()
    return (mean * scale) ** 2 * (math.sqrt(5.0 * number / 3.0 + 2.0) / 2.0)


def _without(bias: Tensor | None, output: Tensor) -> Tensor:
    return output if bias is None else output - bias


def _batch_norm_gradient(results: Sequence[Tensor], args: Sequence[Any]) -> list[SharedRounding]:
    gradient, inputs, weight, _, _, mean, scale, training, _, wanted = args
    if not training or not wanted[0]:
        return []
    terms = gradient if weight is None else gradient * _of_channels(weight, inputs)
    mean, scale = _of_channels(mean, inputs), _of_channels(scale, inputs)
    return _means(results[0], terms, (inputs - mean) * scale, scale, _all_but_channels(inputs))


def _group_norm_gradient(results: Sequence[Tensor], args: Sequence[Any]) -> list[SharedRounding]:
    gradient, inputs, mean, scale, weight, _, _, _, groups, wanted = args
    if not wanted[0]:
        return []
    terms = gradient if weight is None else gradient * _of_channels(weight, inputs)
    mean, scale = _before(mean, inputs), _before(scale, inputs)
    result, terms, inputs = (one.unflatten(1, (groups, -1)) for one in (results[0], terms, inputs))
    return _means(result, terms, (inputs - mean) * scale, scale, [*range(2, inputs.dim())])


def _layer_norm_gradient(results: Sequence[Tensor], args: Sequence[Any]) -> list[SharedRounding]:
    gradient, inputs, shape, mean, scale, weight, _, wanted = args
    if not wanted[0]:
        return []
    terms = gradient if weight is None else gradient * weight
    return _means(results[0], terms, (inputs - mean) * scale, scale, [*range(-len(shape), 0)])


def _means(
    result: Tensor, terms: Tensor, normed: Tensor, scale: Tensor, dims: Sequence[int]
) -> list[SharedRounding]:
    """The partial sums of both means over `dims` in the gradient of a normalisation's input.

    That is scale * (g - mean(g) - x mean(g x)) with the normalised input x and the terms g (S. Ioffe and
    C. Szegedy, Batch Normalization, 2015, section 3).
    """
    share = scale.abs() * scale.numel() / terms.numel()

    def size(summed: Tensor) -> Tensor:
        return partial_sums_over(summed, dims).reshape(scale.shape) * share

    return [
        SharedRounding(size(terms), [(result, 1.0)]),
        SharedRounding(size(terms * normed), [(result, normed)]),
    ]


def _softmax_gradient(result: Tensor, args: Sequence[Any]) -> list[SharedRounding]:
    """That is y * (g - sum(g y)) with the output y and its gradient g; the sum is one number for a row."""
    gradient, output, dim, _ = args
    return [SharedRounding(_sums(gradient * output, dim), [(result, output)])]


def _log_softmax_gradient(result: Tensor, args: Sequence[Any]) -> list[SharedRounding]:
    """That is g - exp(y) * sum(g)."""
    gradient, output, dim, _ = args
    return [SharedRounding(_sums(gradient, dim), [(result, output.exp())])]


def _tanh(result: Tensor, _args: Sequence[Any]) -> list[SharedRounding]:
    """Where float32 has no number between the result and 1, all results are off alike.

    XLA's tanh ends 3 roundoffs below 1 where it is compiled without optimisation (XLA:CPU of jaxlib 0.7.1).
    """
    flat = torch.where(1.0 - result.abs() < FLAT, result, 0.0)
    return [SharedRounding(torch.full_like(result.sum(), FLAT_ROUNDOFFS), [(result, flat)])]


def _sums(terms: Tensor, dim: int) -> Tensor:
    """The partial sums over a dim, which stays with size 1; a tensor without dims is such a sum."""
    sums = partial_sums_over(terms, dim)
    return sums.unsqueeze(dim) if terms.dim() else sums


def _of_channels(statistic: Tensor, beside: Tensor) -> Tensor:
    """A view of one number for each channel, in a shape that can be broadcast to that of `beside`."""
    return statistic[(None, slice(None), *[None] * (beside.dim() - 2))]


def _before(statistic: Tensor, beside: Tensor) -> Tensor:
    """A view of one number for each group of channels of each row, beside the channels in groups."""
    return statistic[(..., *[None] * (beside.dim() - 1))]


def _all_but_channels(tensor: Tensor) -> list[int]:
    return [0, *range(2, tensor.dim())]


SHARED: Mapping[str, Callable[[Any, Sequence[Any]], list[SharedRounding]]] = {
    "tanh": _tanh,
    "_softmax_backward_data": _softmax_gradient,
    "_log_softmax_backward_data": _log_softmax_gradient,
    "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm,
    "native_batch_norm": _batch_norm,
    "native_batch_norm_backward": _batch_norm_gradient,
    "native_group_norm_backward": _group_norm_gradient,
    "native_layer_norm_backward": _layer_norm_gradient,
}
"""The errors from an operator's results and arguments."""

"""Normalizations, by the formulas of torch's documentation."""

import math
from collections.abc import Mapping

from workers.references.layers import Array
from workers.references.operators import Formula
from workers.references.operators.reductions import vector_norm

EPSILON = 2.0**-52
"""The distance of 1 to the next number of float64."""


def _scaled(values: Array, weight: Array, bias: Array) -> Array:
    values = values if weight is None else values * weight
    return values if bias is None else values + bias


def _moments(x: Array, dims: tuple[int, ...]) -> tuple[Array, Array]:
    """The mean and the variance, both with their dims."""
    size = math.prod(x.shape[at] for at in dims)
    mean = x.sum(dims, keepdims=True) / size
    return mean, ((x - mean) ** 2).sum(dims, keepdims=True) / size


def layer_norm(
    np: Array,
    x: Array,
    normalized_shape: tuple[int, ...],
    weight: Array = None,
    bias: Array = None,
    eps: float = 1e-5,
) -> Array:
    """Mean 0 and variance 1 over the last dims. A bias that is not given is 0.0, which leaves no -0.0."""
    mean, variance = _moments(x, tuple(range(x.ndim - len(normalized_shape), x.ndim)))
    return _scaled((x - mean) / np.sqrt(variance + eps), weight, 0.0 if bias is None else bias)


def rms_norm(
    np: Array, x: Array, normalized_shape: tuple[int, ...], weight: Array = None, eps: float | None = None
) -> Array:
    """Over the root of the mean of squares of the last dims."""
    dims = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    squares = (x**2).sum(dims, keepdims=True) / math.prod(normalized_shape)
    return _scaled(x / np.sqrt(squares + (EPSILON if eps is None else eps)), weight, None)


def group_norm(
    np: Array, x: Array, num_groups: int, weight: Array = None, bias: Array = None, eps: float = 1e-5
) -> Array:
    """Mean 0 and variance 1 over each group of channels.

    Like torch, which multiplies before it subtracts the mean, where that shows: by an infinite weight.
    """
    parts = x.reshape(x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:])
    moments = _moments(parts, tuple(range(2, parts.ndim)))
    mean, variance = (np.broadcast_to(one, parts.shape).reshape(x.shape) for one in moments)
    by_channel, root = (-1, *(1,) * (x.ndim - 2)), np.sqrt(variance + eps)
    weight, bias = (one if one is None else one.reshape(by_channel) for one in (weight, bias))
    normalized = _scaled((x - mean) / root, weight, bias)
    if weight is None:
        return normalized
    factor = weight / root
    multiplied_first = _scaled(x * factor - mean * factor, None, bias)
    return np.where(np.isinf(weight), multiplied_first, normalized)


def batch_norm(
    np: Array,
    x: Array,
    running_mean: Array,
    running_var: Array,
    weight: Array = None,
    bias: Array = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Array:
    """By the batch's mean and variance in training, else by the running ones."""
    by_channel = (-1, *(1,) * (x.ndim - 2))
    if training:
        mean, variance = _moments(x, (0, *range(2, x.ndim)))
    else:
        mean, variance = running_mean.reshape(by_channel), running_var.reshape(by_channel)
    shaped = (one if one is None else one.reshape(by_channel) for one in (weight, bias))
    return _scaled((x - mean) / np.sqrt(variance + eps), *shaped)


def normalize(np: Array, x: Array, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Array:
    """Over the norm along `dim`, which is at least `eps`."""
    return x / np.maximum(vector_norm(np, x, p, dim, keepdim=True), eps)


FORMULAS: Mapping[str, Formula] = {
    "nn.functional.batch_norm": batch_norm,
    "nn.functional.group_norm": group_norm,
    "nn.functional.layer_norm": layer_norm,
    "nn.functional.normalize": normalize,
    "nn.functional.rms_norm": rms_norm,
}

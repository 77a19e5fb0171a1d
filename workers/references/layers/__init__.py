"""The definitions of layers, a file for each kind: from the input and the weights to the output.

`numpy` is the module of arrays: JAX's, which differentiates them, or numpy itself. A definition has few plain
operations, and none of torch's names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from difftest.cases.layer import Layer
from difftest.ground import plugins

Array: TypeAlias = Any
"""An array of numpy or of JAX."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a layer computes with.

    `own(name)` is its own weight of that name, `extras` are what the batch has beside inputs, `path` is where
    it stands, and `numpy` the module of arrays. `erf` is the error function of these arrays.
    """

    numpy: Any
    erf: Any
    weights: Mapping[str, Array]
    extras: Mapping[str, Array]
    path: str

    def own(self, name: str) -> Array:
        """A weight of the layer."""
        return self.weights[f"{self.path}.{name}"]

    def at(self, path: str) -> "Context":
        """The same for the layer at `path`."""
        return replace(self, path=path)


class LayerDefinition(Protocol):
    """What a file in this folder offers."""

    def lacks(self, layer: Any) -> str:  # noqa: ANN401  a layer of its kind
        """What of a layer has no definition; empty where it has one."""

    def computed(self, layer: Any, inputs: Array, context: Context) -> Array:  # noqa: ANN401  a layer of its kind
        """The output of the layer."""


def complete(_layer: Layer) -> str:
    """Every layer of the kind has a definition."""
    return ""


def lacks(layer: Layer) -> str:
    """What of a layer has no definition here; empty where it has one."""
    if layer.kind not in plugins.names(__name__):
        return f"no definition of a {layer.title}"
    return _load(layer).lacks(layer)


def computed(layer: Layer, inputs: Array, context: Context) -> Array:
    """The output of a layer."""
    return _load(layer).computed(layer, inputs, context)


def _load(layer: Layer) -> LayerDefinition:
    return cast("LayerDefinition", plugins.load(__name__, layer.kind))


def projected(inputs: Array, weight: Array, bias: Array | None = None) -> Array:
    """`inputs @ weight.T + bias`."""
    products = inputs @ weight.T
    return products if bias is None else products + bias


def constant(arrays: Array, x: Array) -> Array:
    """`x` without a derivative: what is subtracted and added again has none, but for its rounding."""
    if arrays is np:
        return x
    from jax import lax

    return lax.stop_gradient(x)


def softmax(scores: Array, context: Context) -> Array:
    """Shares along the last dim; the greatest score is subtracted, which changes nothing but the range."""
    powers = context.numpy.exp(_from_greatest(scores, context))
    return powers / powers.sum(-1, keepdims=True)


def log_softmax(scores: Array, context: Context) -> Array:
    """The logarithm of `softmax`."""
    shifted = _from_greatest(scores, context)
    return shifted - context.numpy.log(context.numpy.exp(shifted).sum(-1, keepdims=True))


def _from_greatest(scores: Array, context: Context) -> Array:
    return scores - constant(context.numpy, scores.max(-1, keepdims=True))


def sigmoid(values: Array, context: Context) -> Array:
    """`1 / (1 + exp(-x))`."""
    return logistic(context.numpy, values)


def logistic(arrays: Array, x: Array) -> Array:
    """The same by powers that do not overflow, of which one has its derivative at 0 too."""
    positive = x >= 0
    power = arrays.exp(arrays.where(positive, -x, x))
    return arrays.where(positive, 1.0, power) / (1 + power)


def normalized(values: Array, axes: tuple[int, ...], context: Context) -> Array:
    """Mean 0 and variance 1 along `axes`; the variance divides by the number of elements."""
    centred = values - values.mean(axes, keepdims=True)
    return centred / context.numpy.sqrt((centred**2).mean(axes, keepdims=True) + EPSILON)


def by_heads(inputs: Array, name: str, width: int, group: int, context: Context) -> Array:
    """The projection `name`, as (batch, heads * group, positions, width): each head is repeated."""
    batch, positions, _ = inputs.shape
    heads = projected(inputs, context.own(f"{name}.weight")).reshape(batch, positions, -1, width)
    return context.numpy.repeat(heads.transpose(0, 2, 1, 3), group, axis=1)


def hidden_keys(
    context: Context, length: int, keys: int, *, causal: bool, segments: bool = False
) -> Array | None:
    """Which keys a query must not read: later ones, and those of other segments; None for none at all."""
    np, hidden = context.numpy, None
    if causal:
        hidden = np.arange(keys)[None, :] > np.arange(length)[:, None]
    if segments:
        ids = context.extras["segments"]
        others = ids[:, None, :, None] != ids[:, None, None, :keys]
        hidden = others if hidden is None else hidden | others
    return hidden


def mixed(scores: Array, hidden: Array | None, value: Array, context: Context) -> Array:
    """Attention: values weighted by the softmax of scores, without those that are hidden.

    A query of which all keys are hidden gives zeros. Heads come together again: (batch, positions, width).
    """
    np = context.numpy
    if hidden is None:
        shares = softmax(scores, context)
    else:
        shares = np.where(hidden, 0.0, softmax(np.where(hidden, LOWEST, scores), context))
    batch, heads, positions, _ = scores.shape
    return (shares @ value).transpose(0, 2, 1, 3).reshape(batch, positions, heads * value.shape[-1])


EPSILON = 1e-5
"""What a normalization adds to a variance: torch's documented default."""

LOWEST = -1e300
"""Stands for minus infinity, of which differences are no numbers."""

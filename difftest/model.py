"""What is trained: a list of layers as data. Names and shapes of parameters are computed here, without torch.

Every layer maps a float tensor (batch, [sequence,] width) to one of the same rank; `Embedding` is the only one that takes
integers, (batch, sequence), and stands first. Parameter names are those of the `torch.nn.Module` that `workers.build` makes
of it: the layer's index, then torch's own name (`0.weight`, `2.0.q.weight`).
"""

import math
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

MOST_WIDTH = 4096
MOST_LAYERS = 64

Parameters: TypeAlias = Mapping[str, tuple[int, ...]]


class Linear(msgspec.Struct, frozen=True, kw_only=True, tag="linear", forbid_unknown_fields=True):
    """`x @ weight.T + bias`; weight is (outputs, inputs). `tied`: the weight is that of the `Embedding` at index 0."""

    inputs: int
    outputs: int
    bias: bool = True
    tied: bool = False


class Activation(msgspec.Struct, frozen=True, kw_only=True, tag="activation", forbid_unknown_fields=True):
    """An elementwise nonlinearity."""

    function: Literal["relu", "gelu", "silu", "tanh"]


class LayerNorm(msgspec.Struct, frozen=True, kw_only=True, tag="layer_norm", forbid_unknown_fields=True):
    """Normalises the last dim to mean 0 and variance 1, then scales and shifts."""

    width: int


class RMSNorm(msgspec.Struct, frozen=True, kw_only=True, tag="rms_norm", forbid_unknown_fields=True):
    """Divides the last dim by its root mean square, then scales."""

    width: int


class Embedding(msgspec.Struct, frozen=True, kw_only=True, tag="embedding", forbid_unknown_fields=True):
    """Token ids (batch, sequence) to vectors; weight is (vocabulary, width)."""

    vocabulary: int
    width: int


class Conv(msgspec.Struct, frozen=True, kw_only=True, tag="conv", forbid_unknown_fields=True):
    """A convolution along the sequence that keeps its length; weight is (outputs, inputs, kernel), kernel odd."""

    inputs: int
    outputs: int
    kernel: int = 3


class Attention(msgspec.Struct, frozen=True, kw_only=True, tag="attention", forbid_unknown_fields=True):
    """Multi-head attention with `q`, `k`, `v`, `o` projections; fewer `kv_heads` than `heads` is grouped-query attention.

    `segments`: a position attends only to positions of its own segment id (packed sequences).
    """

    width: int
    heads: int
    kv_heads: int
    causal: bool = True
    segments: bool = False

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return self.width // self.heads


class Residual(msgspec.Struct, frozen=True, kw_only=True, tag="residual", forbid_unknown_fields=True):
    """`x + layers(x)`."""

    layers: tuple["Layer", ...]


Layer: TypeAlias = Linear | Activation | LayerNorm | RMSNorm | Embedding | Conv | Attention | Residual


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Layers in order, and the input they take.

    `sequence` is 0 for inputs (batch, width), else the length of (batch, sequence[, width]). `ValueError` when widths do not fit
    one another, a layer cannot stand where it does, or a size is out of range.
    """

    layers: tuple[Layer, ...]
    sequence: int = 0

    def __post_init__(self) -> None:
        if not self.layers or len(list(walk(self.layers))) > MOST_LAYERS:
            msg = f"model has {len(list(walk(self.layers)))} layers; allowed: 1 to {MOST_LAYERS}"
            raise ValueError(msg)
        if not 0 <= self.sequence <= MOST_WIDTH:
            msg = f"model has sequence {self.sequence}; allowed: 0 to {MOST_WIDTH}"
            raise ValueError(msg)
        for path, layer in walk(self.layers):
            _check_sizes(path, layer)
        self._check_places()
        _check_widths(self.layers, self.inputs)
        if not self.parameters():
            msg = "model has no parameter; at least one is needed"
            raise ValueError(msg)

    def _check_places(self) -> None:
        for path, layer in walk(self.layers):
            if isinstance(layer, Embedding) and path != "0":
                msg = f"layer {path} is an embedding; only layer 0 may be one"
                raise ValueError(msg)
            if isinstance(layer, Embedding | Conv | Attention) and self.sequence < 1:
                msg = f"layer {path} needs a sequence; the model's sequence is {self.sequence}"
                raise ValueError(msg)
            if isinstance(layer, Linear) and layer.tied and self._embedding_shape() != (layer.outputs, layer.inputs):
                msg = f"layer {path} is tied to layer 0, which is no embedding of ({layer.outputs}, {layer.inputs})"
                raise ValueError(msg)

    def _embedding_shape(self) -> tuple[int, int] | None:
        first = self.layers[0]
        return (first.vocabulary, first.width) if isinstance(first, Embedding) else None

    @property
    def tokens(self) -> int:
        """The vocabulary when the model takes token ids, else 0."""
        first = self.layers[0]
        return first.vocabulary if isinstance(first, Embedding) else 0

    @property
    def inputs(self) -> int:
        """The width of the model's float inputs (of the embedding when it takes token ids)."""
        return _width_in(self.layers) or 1

    @property
    def outputs(self) -> int:
        """The width of the model's last dim."""
        return _width_out(self.layers, self.inputs)

    @property
    def segments(self) -> bool:
        """Whether any layer reads segment ids."""
        return any(isinstance(layer, Attention) and layer.segments for _, layer in walk(self.layers))

    def parameters(self) -> Parameters:
        """Every parameter's shape by name, in torch's order; a tied weight appears once."""
        return {f"{path}.{name}": shape for path, layer in walk(self.layers) for name, shape in shapes(layer).items()}


def walk(layers: tuple[Layer, ...], prefix: str = "") -> Iterator[tuple[str, Layer]]:
    """Every layer with its dotted path, residual blocks before what they hold."""
    for index, layer in enumerate(layers):
        path = f"{prefix}{index}"
        yield path, layer
        if isinstance(layer, Residual):
            yield from walk(layer.layers, f"{path}.")


def shapes(layer: Layer) -> Parameters:  # noqa: PLR0911  a table, kind by kind
    """The shapes of a layer's own parameters by torch's names; none for layers that hold others or nothing."""
    match layer:
        case Linear():
            weight = {} if layer.tied else {"weight": (layer.outputs, layer.inputs)}
            return weight | ({"bias": (layer.outputs,)} if layer.bias else {})
        case LayerNorm():
            return {"weight": (layer.width,), "bias": (layer.width,)}
        case RMSNorm():
            return {"weight": (layer.width,)}
        case Embedding():
            return {"weight": (layer.vocabulary, layer.width)}
        case Conv():
            return {"weight": (layer.outputs, layer.inputs, layer.kernel), "bias": (layer.outputs,)}
        case Attention():
            kv = layer.kv_heads * layer.head_dim
            return {
                "q.weight": (layer.width, layer.width),
                "k.weight": (kv, layer.width),
                "v.weight": (kv, layer.width),
                "o.weight": (layer.width, layer.width),
            }
        case _:
            return {}


def fan_in(shape: tuple[int, ...]) -> int:
    """How many inputs feed one output of a weight of `shape` (outputs, inputs, ...)."""
    return math.prod(shape[1:])


def _check_sizes(path: str, layer: Layer) -> None:
    for field in layer.__struct_fields__:
        value = getattr(layer, field)
        if isinstance(value, int) and not isinstance(value, bool) and not 1 <= value <= MOST_WIDTH:
            msg = f"layer {path} has {field} {value}; allowed: 1 to {MOST_WIDTH}"
            raise ValueError(msg)
    if isinstance(layer, Conv) and layer.kernel % 2 == 0:
        msg = f"layer {path} has kernel {layer.kernel}; it must be odd to keep the length"
        raise ValueError(msg)
    if isinstance(layer, Attention) and (layer.width % layer.heads or layer.heads % layer.kv_heads):
        msg = f"layer {path} has width {layer.width}, heads {layer.heads}, kv_heads {layer.kv_heads}; each must divide the one before"
        raise ValueError(msg)


def _check_widths(layers: tuple[Layer, ...], width: int, prefix: str = "") -> None:
    for index, layer in enumerate(layers):
        needed = _width_in((layer,))
        if needed and needed != width and not isinstance(layer, Embedding):
            msg = f"layer {prefix}{index} takes width {needed}; it is given {width}"
            raise ValueError(msg)
        if isinstance(layer, Residual):
            _check_widths(layer.layers, width, f"{prefix}{index}.")
            if _width_out(layer.layers, width) != width:
                msg = f"residual layer {prefix}{index} ends at width {_width_out(layer.layers, width)}; it must end at {width}"
                raise ValueError(msg)
        width = _width_out((layer,), width)


def _width_in(layers: tuple[Layer, ...]) -> int | None:
    """The width the first layer that cares about it takes."""
    for _, layer in walk(layers):
        match layer:
            case Linear() | Conv():
                return layer.inputs
            case LayerNorm() | RMSNorm() | Attention() | Embedding():
                return layer.width
            case _:
                continue
    return None


def _width_out(layers: tuple[Layer, ...], width: int) -> int:
    for layer in layers:
        match layer:
            case Linear() | Conv():
                width = layer.outputs
            case Embedding():
                width = layer.width
            case _:
                continue
    return width

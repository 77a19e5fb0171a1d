"""The layers that a model is a list of, as data: what each takes, gives and owns.

Every layer maps a float tensor (batch, [sequence,] width) to one of the same rank; `Embedding` is the only one that takes integers, (batch,
sequence). `Embedding` and `Collective` stand first. What a layer computes is written once in `workers.training.build`, for every backend.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

MOST_WIDTH = 4096
MOST_DROPPED = 0.9
MOST_SCALE = 16.0

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

    @property
    def key_heads(self) -> int:
        """How many heads keys and values have."""
        return self.kv_heads


class FlashAttention(
    msgspec.Struct, frozen=True, kw_only=True, tag="flash_attention", forbid_unknown_fields=True
):
    """Multi-head attention by each side's flash kernel, with `q`, `k`, `v`, `o` projections to `heads * head_dim` and back.

    `length` is the model's sequence. Keys and values come from the first `keys` positions of the input: fewer than `length` is cross
    attention with another key length. `segments`: a query attends only to keys of its own segment id. `bias`: a learned `ab` (heads,
    length, keys) is added to the scores. `scale` is the factor on the scores, None for `head_dim ** -0.5`. `kv_heads`, where it is set, is
    a divisor of `heads`: that many heads of keys and values are shared by groups of query heads.
    """

    width: int
    heads: int
    head_dim: int
    length: int
    keys: int
    causal: bool = False
    segments: bool = False
    bias: bool = False
    scale: float | None = None
    kv_heads: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def key_heads(self) -> int:
        """How many heads keys and values have."""
        return self.heads if self.kv_heads is msgspec.UNSET else self.kv_heads


class Dropout(msgspec.Struct, frozen=True, kw_only=True, tag="dropout", forbid_unknown_fields=True):
    """Zeroes a `share` of the values and scales the rest by `1 / (1 - share)`; the mask is drawn on the host and fed."""

    width: int
    share: float = 0.5


class Collective(msgspec.Struct, frozen=True, kw_only=True, tag="collective", forbid_unknown_fields=True):
    """One collective over mesh axis number `axis` of `mesh`, whose every axis cuts the batch's rows, outermost first.

    A rank holds (rows, width). `all_gather` puts the group's tensors side by side (width times the group's size), `reduce_scatter` leaves
    each rank its slice of the reduced width, `all_to_all` exchanges slices of the width; `permute` shifts to the next rank of
    the group; `broadcast` takes the tensor of the group's first rank. `factor` multiplies the result. `form` is how the
    framework is asked: for one tensor, or for a list of them (the width's two halves).
    """

    operation: Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "broadcast"]
    width: int
    mesh: tuple[int, ...]
    axis: int = 0
    reduction: Literal["sum", "max", "min"] = "sum"
    factor: float = 1.0
    form: Literal["single", "list"] = "single"

    @property
    def ranks(self) -> int:
        """The size of a group."""
        return self.mesh[self.axis]

    @property
    def outputs(self) -> int:
        """The width of the result."""
        sizes = {"all_gather": self.width * self.ranks, "reduce_scatter": self.width // self.ranks}
        return sizes.get(self.operation, self.width)


class Redistribute(msgspec.Struct, frozen=True, kw_only=True, tag="redistribute", forbid_unknown_fields=True):
    """The identity, by way of other placements: where tensors know theirs, the activations are moved to `dims` and back.

    `dims` has the tensor dim that each mesh axis shards meanwhile, or None for a replica. `by` names the door: `redistribute`,
    `full_tensor` (then distributed anew), or `to_local` and `from_local`. Backends with plain activations have nothing to move.
    """

    width: int
    dims: tuple[int | None, ...]
    by: Literal["redistribute", "full_tensor", "to_local"] = "redistribute"


class Residual(msgspec.Struct, frozen=True, kw_only=True, tag="residual", forbid_unknown_fields=True):
    """`x + layers(x)`."""

    layers: tuple["Layer", ...]


Layer: TypeAlias = (
    Linear
    | Activation
    | LayerNorm
    | RMSNorm
    | Embedding
    | Conv
    | Attention
    | FlashAttention
    | Dropout
    | Collective
    | Redistribute
    | Residual
)


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
        case FlashAttention():
            inner, shared = layer.heads * layer.head_dim, (layer.key_heads * layer.head_dim, layer.width)
            own = {
                "q.weight": (inner, layer.width),
                "k.weight": shared,
                "v.weight": shared,
                "o.weight": (layer.width, inner),
            }
            return own | ({"ab": (layer.heads, layer.length, layer.keys)} if layer.bias else {})
        case _:
            return {}


def fan_in(shape: tuple[int, ...]) -> int:
    """How many inputs feed one output of a weight of `shape` (outputs, inputs, ...)."""
    return math.prod(shape[1:])


def check_sizes(path: str, layer: Layer) -> None:
    """`ValueError` when a size of the layer at `path` is out of range, or its sizes contradict each other."""
    for field in layer.__struct_fields__:
        value = getattr(layer, field)
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and field != "axis"
            and not 1 <= value <= MOST_WIDTH
        ):
            msg = f"layer {path} has {field} {value}; allowed: 1 to {MOST_WIDTH}"
            raise ValueError(msg)
    if wrong := _contradiction(layer):
        msg = f"layer {path} has {wrong}"
        raise ValueError(msg)


def _contradiction(layer: Layer) -> str:  # noqa: PLR0911  one a kind
    """What in a layer does not go together, with what is allowed; empty when all does."""
    match layer:
        case Conv() if layer.kernel % 2 == 0:
            return f"kernel {layer.kernel}; it must be odd to keep the length"
        case Attention() if layer.width % layer.heads or layer.heads % layer.kv_heads:
            return f"width {layer.width}, heads {layer.heads}, kv_heads {layer.kv_heads}; each must divide the one before"
        case FlashAttention() if layer.heads % layer.key_heads:
            return f"heads {layer.heads}, kv_heads {layer.kv_heads}; the second must divide the first"
        case FlashAttention() if layer.keys > layer.length:
            return f"keys {layer.keys}; allowed: 1 to its length {layer.length}"
        case FlashAttention() if layer.scale is not None and not 0.0 < layer.scale <= MOST_SCALE:
            return f"scale {layer.scale}; allowed: above 0, to {MOST_SCALE}"
        case Dropout() if not 0.0 <= layer.share <= MOST_DROPPED:
            return f"share {layer.share}; allowed: 0 to {MOST_DROPPED}"
        case Collective():
            return _collective_contradiction(layer)
        case _:
            return ""


def _collective_contradiction(layer: Collective) -> str:
    if not layer.mesh or min(layer.mesh) < 1 or not 0 <= layer.axis < len(layer.mesh):
        return f"axis {layer.axis} of a mesh {layer.mesh}; allowed: an axis of a mesh with sizes from 1"
    if layer.operation in ("reduce_scatter", "all_to_all") and layer.width % layer.ranks:
        return f"width {layer.width}; {layer.operation} over {layer.ranks} ranks needs a multiple of them"
    if not 0.0 < layer.factor <= MOST_SCALE:
        return f"factor {layer.factor}; allowed: above 0, to {MOST_SCALE}"
    return f"width {layer.width}; a list is of two halves" if layer.form == "list" and layer.width % 2 else ""


def width_in(layers: tuple[Layer, ...]) -> int | None:
    """The width the first layer that cares about it takes."""
    for _, layer in walk(layers):
        match layer:
            case Linear() | Conv():
                return layer.inputs
            case Activation() | Residual():
                continue
            case _:
                return layer.width
    return None


def width_out(layers: tuple[Layer, ...], width: int) -> int:
    """The width of the last dim after `layers`, given `width`."""
    for layer in layers:
        match layer:
            case Linear() | Conv() | Collective():
                width = layer.outputs
            case Embedding():
                width = layer.width
            case _:
                continue
    return width

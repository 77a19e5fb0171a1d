"""What is trained: a list of layers as data. Names and shapes of parameters are computed here, without torch.

Parameter names are those of the `torch.nn.Module` that `workers.training.build` makes of it: the layer's
index, then torch's own name (`0.weight`, `2.0.q.weight`).
"""

from collections.abc import Mapping

import msgspec

from difftest.cases.layer import MOST_WIDTH, Layer, Parameters
from difftest.cases.layers import AnyLayer, walk
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layers.operator import Operator
from difftest.cases.layers.own import Own

MOST_LAYERS = 64


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Layers in order, and the input they take.

    `sequence` is 0 for inputs (batch, width), else the length of (batch, sequence[, width]). `ValueError` if
    widths do not fit one another, a layer cannot stand where it does, or a size is out of range.
    """

    layers: tuple[AnyLayer, ...]
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
        for path, layer in walk(self.layers):
            if reason := layer.misplaced(path, self.sequence, self.layers[0]):
                msg = f"layer {path} {reason}"
                raise ValueError(msg)
        _check_widths(self.layers, self.inputs)
        if len({layer.READS_RESULTS for layer in self.layers}) > 1:
            msg = "model mixes operators with other layers; a program consists of operators alone"
            raise ValueError(msg)
        if len(self.layers) > 1 and any(isinstance(layer, Own) for _, layer in walk(self.layers)):
            msg = f"model has {len(self.layers)} layers; a module of the user's is the only one"
            raise ValueError(msg)
        if not self.tensors():
            msg = "model has no parameter; at least one is needed"
            raise ValueError(msg)

    @property
    def titles(self) -> list[str]:
        """The kinds of the layers in order, the operators of a program, or the class of a user's model."""
        named = self.is_program or self.own is not None
        return [layer.title if named else type(layer).__name__ for _, layer in walk(self.layers)]

    @property
    def tokens(self) -> int:
        """The vocabulary if the model takes token ids, else 0."""
        return self.layers[0].tokens

    @property
    def inputs(self) -> int:
        """The width of the model's float inputs (of the embedding if it takes token ids)."""
        return width_in(self.layers) or 1

    @property
    def outputs(self) -> int:
        """The width of the model's last dim."""
        return width_out(self.layers, self.inputs)

    @property
    def segments(self) -> bool:
        """Whether any layer reads segment ids."""
        return any(layer.reads_segments for _, layer in walk(self.layers))

    @property
    def masked(self) -> Mapping[str, Layer]:
        """The layers that read a mask, by path."""
        return {path: layer for path, layer in walk(self.layers) if layer.reads_mask}

    @property
    def flash_attentions(self) -> Mapping[str, FlashAttention]:
        """The layers that compute attention by a kernel, by path."""
        return {path: layer for path, layer in walk(self.layers) if isinstance(layer, FlashAttention)}

    @property
    def attention_queries(self) -> frozenset[str]:
        """The names of the parameters that make the queries of attention."""
        return frozenset(
            f"{path}.{name}" for path, layer in walk(self.layers) for name in layer.ATTENTION_QUERIES
        )

    @property
    def is_program(self) -> bool:
        """Whether its layers are operators that name their tensors, instead of passing activations on."""
        return self.layers[0].READS_RESULTS

    @property
    def operators(self) -> Mapping[str, Operator]:
        """The operators of a program in order, by path; none of any other model."""
        return {path: layer for path, layer in walk(self.layers) if isinstance(layer, Operator)}

    @property
    def own(self) -> Own | None:
        """The module of the user's that it is, which brings its own numbers; None for any other model."""
        first = self.layers[0]
        return first if isinstance(first, Own) else None

    @property
    def rejects(self) -> bool:
        """Whether torch raises for the arguments of one of its operators."""
        return any(layer.rejects for layer in self.layers)

    @property
    def undefined(self) -> str:
        """What torch's documentation leaves open of its results; empty where nothing."""
        return "; ".join(filter(None, (layer.undefined for layer in self.layers)))

    def dtypes(self, dtype: str) -> Mapping[str, str]:
        """The dtype of everything that has placements, in a case of `dtype`."""
        return {
            f"{path}.{name}": layer.dtype_of(name, dtype)
            for path, layer in walk(self.layers)
            for name in (*layer.shapes(), *layer.buffers())
        }

    def tensors(self) -> Parameters:
        """The shape of everything that has placements: the parameters, then the buffers that have them."""
        return {**self.parameters(), **self._buffers()}

    def _buffers(self) -> Parameters:
        return {
            f"{path}.{name}": shape
            for path, layer in walk(self.layers)
            for name, shape in layer.buffers().items()
        }

    def statistics(self) -> Parameters:
        """The shape of every buffer of a module by name; none of a program, whose buffers are operands."""
        return {} if self.is_program else self._buffers()

    def parameters(self) -> Parameters:
        """Every parameter's shape by name, in torch's order; a tied weight appears once."""
        return {
            f"{path}.{name}": shape
            for path, layer in walk(self.layers)
            for name, shape in layer.shapes().items()
        }


def width_in(layers: tuple[Layer, ...]) -> int | None:
    """The width of the input that `layers` need; None if any will do."""
    return next((layer.takes for layer in layers if layer.takes is not None), None)


def width_out(layers: tuple[Layer, ...], width: int) -> int:
    """The width of the last dim after `layers`, given `width`."""
    for layer in layers:
        width = layer.gives(width)
    return width


def _check_sizes(path: str, layer: Layer) -> None:
    """`ValueError` if a size of the layer at `path` is out of range, or its fields contradict each other."""
    for field, size in layer.sizes().items():
        if not 1 <= size <= MOST_WIDTH:
            msg = f"layer {path} has {field} {size}; allowed: 1 to {MOST_WIDTH}"
            raise ValueError(msg)
    if reason := layer.contradiction():
        msg = f"layer {path} has {reason}"
        raise ValueError(msg)


def _check_widths(layers: tuple[Layer, ...], width: int, prefix: str = "") -> None:
    """`ValueError` if a layer gets a width that it does not take, or a container changes the width."""
    for index, layer in enumerate(layers):
        if layer.takes and layer.takes != width:
            msg = f"layer {prefix}{index} takes width {layer.takes}; it is given {width}"
            raise ValueError(msg)
        if layer.held is not None:
            _check_widths(layer.held, width, f"{prefix}{index}.")
            end = width_out(layer.held, width)
            if end != width:
                msg = f"{layer.kind} layer {prefix}{index} ends at width {end}; it must end at {width}"
                raise ValueError(msg)
        width = layer.gives(width)

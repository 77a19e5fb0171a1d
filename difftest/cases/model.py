"""What is trained: a list of layers as data. Names and shapes of parameters are computed here, without torch.

Parameter names are those of the `torch.nn.Module` that `workers.training.build` makes of it: the layer's index, then torch's own name (`0.weight`,
`2.0.q.weight`).
"""  # noqa: E501

from collections.abc import Mapping

import msgspec

from difftest.cases.layers import (
    MOST_WIDTH,
    Attention,
    Collective,
    Conv,
    Dropout,
    Embedding,
    FlashAttention,
    Layer,
    Linear,
    Parameters,
    Residual,
    check_sizes,
    shapes,
    walk,
    width_in,
    width_out,
)

MOST_LAYERS = 64


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
            check_sizes(path, layer)
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
            if isinstance(layer, Collective) and (path != "0" or self.sequence):
                msg = f"layer {path} is a collective; only layer 0 may be one, of a model without a sequence"
                raise ValueError(msg)
            if isinstance(layer, Embedding | Conv | Attention | FlashAttention) and self.sequence < 1:
                msg = f"layer {path} needs a sequence; the model's sequence is {self.sequence}"
                raise ValueError(msg)
            if isinstance(layer, FlashAttention) and layer.length != self.sequence:
                msg = f"layer {path} has length {layer.length}; the model's sequence is {self.sequence}"
                raise ValueError(msg)
            if (
                isinstance(layer, Linear)
                and layer.tied
                and self._embedding_shape() != (layer.outputs, layer.inputs)
            ):
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
        return width_in(self.layers) or 1

    @property
    def outputs(self) -> int:
        """The width of the model's last dim."""
        return width_out(self.layers, self.inputs)

    @property
    def segments(self) -> bool:
        """Whether any layer reads segment ids."""
        return any(
            isinstance(layer, Attention | FlashAttention) and layer.segments for _, layer in walk(self.layers)
        )

    @property
    def dropouts(self) -> Mapping[str, Dropout]:
        """The layers that read a mask, by path."""
        return {path: layer for path, layer in walk(self.layers) if isinstance(layer, Dropout)}

    @property
    def flash_attentions(self) -> Mapping[str, FlashAttention]:
        """The layers that attend by a kernel, by path."""
        return {path: layer for path, layer in walk(self.layers) if isinstance(layer, FlashAttention)}

    def parameters(self) -> Parameters:
        """Every parameter's shape by name, in torch's order; a tied weight appears once."""
        return {
            f"{path}.{name}": shape
            for path, layer in walk(self.layers)
            for name, shape in shapes(layer).items()
        }


def _check_widths(layers: tuple[Layer, ...], width: int, prefix: str = "") -> None:
    for index, layer in enumerate(layers):
        needed = width_in((layer,))
        if needed and needed != width and not isinstance(layer, Embedding):
            msg = f"layer {prefix}{index} takes width {needed}; it is given {width}"
            raise ValueError(msg)
        if isinstance(layer, Residual):
            _check_widths(layer.layers, width, f"{prefix}{index}.")
            if width_out(layer.layers, width) != width:
                msg = f"residual layer {prefix}{index} ends at width {width_out(layer.layers, width)}; it must end at {width}"
                raise ValueError(msg)
        width = width_out((layer,), width)

"""Fewer and plainer layers. What follows a layer that goes is fitted to the width before it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from difftest.cases.case import Case
from difftest.cases.layers import (
    Activation,
    Attention,
    Collective,
    Conv,
    Embedding,
    FlashAttention,
    Layer,
    LayerNorm,
    Linear,
    Redistribute,
    Residual,
    RMSNorm,
    walk,
)
from difftest.reduce.candidate import Candidate, Simplification, by_parts
from difftest.reduce.placed import Placed, edited

ORDER = 1


def fewer_layers(case: Case) -> Iterator[Candidate]:
    """Without some of the model's layers, those at the end first; a residual block goes whole."""
    layers = [(f"layer {index}, {_kind(layer)}", str(index)) for index, layer in enumerate(case.model.layers)]
    yield from by_parts(layers[::-1], partial(_dropped, case))


def unwrapped(case: Case) -> Iterator[Candidate]:
    """What a residual block holds, without the sum."""
    blocks = [
        (f"layer {path} is residual", path)
        for path, layer in walk(case.model.layers)
        if isinstance(layer, Residual)
    ]
    yield from by_parts(blocks, partial(_unwrapped, case))


def fewer_inner_layers(case: Case) -> Iterator[Candidate]:
    """Without some of the layers in residual blocks."""
    layers = [
        (f"layer {path}, {_kind(layer)}", path) for path, layer in walk(case.model.layers) if "." in path
    ]
    yield from by_parts(layers, partial(_dropped, case))


def plainer_layers(case: Case) -> Iterator[Candidate]:
    """Layers replaced by the plainest that do the same to shapes: attention and convolution by Linear, and so on."""
    known = [
        (path, layer, _plainer(Placed(layer=layer, placements={})).layer)
        for path, layer in walk(case.model.layers)
    ]
    parts = [
        (f"layer {path} is {_kind(layer)}, not {_kind(plain)}", path)
        for path, layer, plain in known
        if plain != layer
    ]
    yield from by_parts(parts, partial(_plain, case))


def fewer_features(case: Case) -> Iterator[Candidate]:
    """Without what layers have beyond their plainest form: biases, ties, masks, groups of heads."""
    known = [(path, layer) for path, layer in walk(case.model.layers)]
    parts = [
        (f"layer {path} {words}", (path, change))
        for path, layer in known
        for words, change in _features(layer)
    ]
    yield from by_parts(parts, partial(_changed, case))


SIMPLIFICATIONS: tuple[Simplification, ...] = (
    fewer_layers,
    unwrapped,
    fewer_inner_layers,
    plainer_layers,
    fewer_features,
)


def _kind(layer: Layer) -> str:
    return layer.function if isinstance(layer, Activation) else type(layer).__name__


def _dropped(case: Case, paths: Sequence[str]) -> Case:
    return edited(case, lambda path, placed: () if path in paths else (placed,))


def _unwrapped(case: Case, paths: Sequence[str]) -> Case:
    return edited(case, lambda path, placed: placed.inner if path in paths else (placed,))


def _plain(case: Case, paths: Sequence[str]) -> Case:
    return edited(case, lambda path, placed: (_plainer(placed),) if path in paths else (placed,))


def _plainer(placed: Placed) -> Placed:
    """The plainest layer with the same widths; it is cut as the first projection was."""
    match placed.layer:
        case Attention() | FlashAttention() as layer:
            cut = {"weight": placed.placements["q.weight"]} if placed.placements else {}
            return Placed(layer=Linear(inputs=layer.width, outputs=layer.width, bias=False), placements=cut)
        case Conv() as layer:
            return replace(placed, layer=Linear(inputs=layer.inputs, outputs=layer.outputs))
        case Embedding() as layer:
            return replace(placed, layer=Linear(inputs=layer.width, outputs=layer.width, bias=False))
        case Activation():
            return replace(placed, layer=Activation(function="relu"))
        case LayerNorm() as layer:
            return replace(placed, layer=RMSNorm(width=layer.width))
        case _:
            return placed


def _changed(case: Case, changes: Sequence[tuple[str, dict[str, Any]]]) -> Case:
    """The case with fields of the layers at these paths replaced."""

    def edit(path: str, placed: Placed) -> tuple[Placed]:
        fields = {field: value for at, change in changes if at == path for field, value in change.items()}
        return (replace(placed, layer=msgspec.structs.replace(placed.layer, **fields)) if fields else placed,)

    return edited(case, edit)


def _features(layer: Layer) -> list[tuple[str, dict[str, Any]]]:
    """What the layer has beyond its plainest form, in words, and the fields that take it away."""
    told: list[tuple[str, str, bool, object]]
    match layer:
        case Linear():
            told = [
                ("has a bias", "bias", layer.bias, False),
                ("is tied to the embedding", "tied", layer.tied, False),
            ]
        case Attention():
            told = [
                ("is causal", "causal", layer.causal, False),
                ("reads segments", "segments", layer.segments, False),
                ("has grouped heads", "kv_heads", layer.kv_heads != layer.heads, layer.heads),
            ]
        case FlashAttention():
            told = [
                ("is causal", "causal", layer.causal, False),
                ("reads segments", "segments", layer.segments, False),
                ("has a bias", "bias", layer.bias, False),
                (f"scales by {layer.scale}", "scale", layer.scale is not None, None),
                (
                    f"has {layer.keys} keys for {layer.length} positions",
                    "keys",
                    layer.keys != layer.length,
                    layer.length,
                ),
                ("has grouped heads", "kv_heads", layer.key_heads != layer.heads, msgspec.UNSET),
            ]
        case Collective():
            told = [
                (f"reduces by {layer.reduction}", "reduction", layer.reduction != "sum", "sum"),
                (f"multiplies by {layer.factor:g}", "factor", layer.factor != 1.0, 1.0),
                ("is asked for a list", "form", layer.form != "single", "single"),
            ]
        case Redistribute():
            told = [(f"goes by {layer.by}", "by", layer.by != "redistribute", "redistribute")]
        case _:
            return []
    return [(words, {field: plain}) for words, field, present, plain in told if present]

"""Fewer and plainer layers; those after a removed layer are fitted to the width before it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.reduce.candidate import Candidate, Simplification, by_parts
from difftest.reduce.placed import Placed, edited

ORDER = 1


def fewer_layers(case: Case) -> Iterator[Candidate]:
    """Without some of the model's layers, the last ones first; a residual block goes as a whole.

    The operators of a program name each other's tensors; they are removed by a function of their own.
    """
    if case.model.is_program:
        return
    layers = [(f"layer {index}, {layer.title}", str(index)) for index, layer in enumerate(case.model.layers)]
    yield from by_parts(layers[::-1], partial(_dropped, case))


def unwrapped(case: Case) -> Iterator[Candidate]:
    """The layers of residual blocks without the sum."""
    blocks = [
        (f"layer {path} is {layer.kind}", path)
        for path, layer in walk(case.model.layers)
        if layer.held is not None
    ]

    def changed(paths: Sequence[str]) -> Case:
        return edited(case, lambda path, placed: placed.inner if path in paths else (placed,))

    yield from by_parts(blocks, changed)


def fewer_inner_layers(case: Case) -> Iterator[Candidate]:
    """Without some of the layers in residual blocks."""
    layers = [
        (f"layer {path}, {layer.title}", path) for path, layer in walk(case.model.layers) if "." in path
    ]
    yield from by_parts(layers, partial(_dropped, case))


def plainer_layers(case: Case) -> Iterator[Candidate]:
    """Layers replaced by the plainest that do the same to shapes, such as attention by Linear."""
    parts = [
        (f"layer {path} is {layer.title}, not {plain.title}", path)
        for path, layer in walk(case.model.layers)
        if (plain := layer.plainer()) != layer
    ]

    def changed(paths: Sequence[str]) -> Case:
        return edited(case, lambda path, placed: (_plainer(placed),) if path in paths else (placed,))

    yield from by_parts(parts, changed)


def fewer_features(case: Case) -> Iterator[Candidate]:
    """Without optional parts of layers: biases, ties, masks, groups of heads."""
    parts = [
        (f"layer {path} {words}", (path, change))
        for path, layer in walk(case.model.layers)
        for words, change in layer.removable()
    ]
    yield from by_parts(parts, partial(_changed, case))


SIMPLIFICATIONS: tuple[Simplification, ...] = (
    fewer_layers,
    unwrapped,
    fewer_inner_layers,
    plainer_layers,
    fewer_features,
)


def _dropped(case: Case, paths: Sequence[str]) -> Case:
    return edited(case, lambda path, placed: () if path in paths else (placed,))


def _plainer(placed: Placed) -> Placed:
    """The plainest layer with the same widths; that of an attention is cut as its first projection was."""
    layer, placements = placed.layer, dict(placed.placements)
    if layer.PLAIN_WEIGHT in placements:
        placements["weight"] = placements[layer.PLAIN_WEIGHT]
    return replace(placed, layer=layer.plainer(), placements=placements)


def _changed(case: Case, changes: Sequence[tuple[str, Mapping[str, Any]]]) -> Case:
    """The case with fields of the layers at these paths replaced."""

    def edit(path: str, placed: Placed) -> tuple[Placed]:
        fields = {field: value for at, change in changes if at == path for field, value in change.items()}
        return (replace(placed, layer=msgspec.structs.replace(placed.layer, **fields)) if fields else placed,)

    return edited(case, edit)

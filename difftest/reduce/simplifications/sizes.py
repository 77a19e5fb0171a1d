"""Smaller models: narrower, with fewer heads, shorter. A few units are small enough: a smaller case helps nobody."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from difftest.cases.case import Case
from difftest.cases.layers import Attention, Conv, Embedding, FlashAttention, Layer, Linear, walk
from difftest.reduce.candidate import Candidate, Simplification, smaller, tried
from difftest.reduce.measure import simpler
from difftest.reduce.placed import Placed, edited, put_together, taken_apart

ORDER = 3
SMALL = (4, 3)
"""What two ranks share evenly, with more than one unit each, and what they do not."""

FLASH_BLOCK = 128
"""Flash kernels take lengths in blocks of so many positions."""

HEADS = ((1, 1), (2, 2), (2, 1))
"""Few heads, and key and value heads: alone, shared by two ranks, grouped."""


def narrower(case: Case) -> Iterator[Candidate]:
    """One width made smaller wherever it occurs."""
    for width in sorted(_free_widths(case), reverse=True):
        yield from simpler(
            case, smaller(f"width {width}", width, SMALL, partial(_resized, case, _WIDTHS, width))
        )


def fewer_words(case: Case) -> Iterator[Candidate]:
    """A smaller vocabulary."""
    if size := case.model.tokens:
        yield from simpler(
            case, smaller(f"vocabulary {size}", size, SMALL, partial(_resized, case, ("vocabulary",), size))
        )


def even_sizes(case: Case) -> Iterator[Candidate]:
    """A width or the vocabulary so large that the ranks share it evenly."""
    ranks = math.lcm(*case.layout.mesh.shape)
    known = [("width", width, _WIDTHS) for width in sorted(_free_widths(case))]
    for what, size, fields in [*known, ("vocabulary", case.model.tokens, ("vocabulary",))]:
        if size % ranks:
            words = f"{what} {size}, which {ranks} ranks do not share evenly"
            yield from simpler(
                case, tried(words, partial(_resized, case, fields, size, size + -size % ranks))
            )


def smaller_kernels(case: Case) -> Iterator[Candidate]:
    """Convolutions of fewer positions."""
    for size in sorted(
        {layer.kernel for _, layer in walk(case.model.layers) if isinstance(layer, Conv)}, reverse=True
    ):
        yield from simpler(
            case, smaller(f"kernel {size}", size, (1, 3), partial(_resized, case, ("kernel",), size))
        )


def fewer_heads(case: Case) -> Iterator[Candidate]:
    """Attention with one or two heads."""
    for path, layer in walk(case.model.layers):
        if isinstance(layer, Attention | FlashAttention):
            for heads, kv_heads in HEADS:
                grouped = kv_heads < heads
                if heads < layer.heads and (layer.key_heads < layer.heads or not grouped):
                    words = f"layer {path} has {layer.heads} heads"
                    yield from simpler(case, tried(words, partial(_with_heads, case, path, heads, kv_heads)))


def shorter(case: Case) -> Iterator[Candidate]:
    """No sequence, or a shorter one."""
    length = case.model.sequence
    flash = case.model.flash_attentions
    if length:
        words = f"sequence {length}"
        if not flash:
            yield from tried(words, partial(put_together, case, taken_apart(case), sequence=0))
        yield from simpler(
            case, smaller(words, length, (FLASH_BLOCK,) if flash else SMALL, partial(_shortened, case))
        )


SIMPLIFICATIONS: tuple[Simplification, ...] = (
    shorter,
    narrower,
    fewer_words,
    smaller_kernels,
    fewer_heads,
    even_sizes,
)

_WIDTHS = ("inputs", "outputs", "width")


def made_odd(case: Case) -> Case:
    """The case with every width, the vocabulary and the rows of each part odd, which an even number of ranks does not share evenly."""
    for width in _free_widths(case):
        case = _resized(case, _WIDTHS, width, _odd(width))
    case = (
        _resized(case, ("vocabulary",), case.model.tokens, _odd(case.model.tokens))
        if case.model.tokens
        else case
    )
    parts = case.training.accumulation
    return msgspec.structs.replace(
        case, data=msgspec.structs.replace(case.data, batch=parts * _odd(case.data.batch // parts))
    )


def _odd(size: int) -> int:
    return size if size % 2 else max(size - 1, 3)


def _free_widths(case: Case) -> set[int]:
    """The widths that others follow from: what the model takes, and what its layers turn that into."""
    layers = [layer for _, layer in walk(case.model.layers)]
    made = {
        layer.outputs
        for layer in layers
        if isinstance(layer, Conv) or (isinstance(layer, Linear) and not layer.tied)
    }
    return made | {case.model.inputs} | {layer.width for layer in layers if isinstance(layer, Embedding)}


def _resized(case: Case, fields: tuple[str, ...], old: int, new: int) -> Case:
    """The case with every one of these fields that is `old` made `new`."""

    def edit(_path: str, placed: Placed) -> tuple[Placed]:
        layer = placed.layer
        own = [field for field in fields if field in layer.__struct_fields__ and not _tied(layer, field)]
        return (
            replace(
                placed, layer=_with(layer, {field: new for field in own if getattr(layer, field) == old})
            ),
        )

    return edited(case, edit)


def _tied(layer: Layer, field: str) -> bool:
    """Whether a size is not the layer's own: the outputs of a tied layer are the vocabulary."""
    return isinstance(layer, Linear) and layer.tied and field == "outputs"


def _with(layer: Layer, fields: dict[str, Any]) -> Layer:
    return msgspec.structs.replace(layer, **fields) if fields else layer


def _with_heads(case: Case, at: str, heads: int, kv_heads: int) -> Case:
    def edit(path: str, placed: Placed) -> tuple[Placed]:
        alike = isinstance(placed.layer, FlashAttention) and kv_heads == heads
        fields = {"heads": heads, "kv_heads": msgspec.UNSET if alike else kv_heads}
        return (replace(placed, layer=_with(placed.layer, fields if path == at else {})),)

    return edited(case, edit)


def _shortened(case: Case, length: int) -> Case:
    def edit(_path: str, placed: Placed) -> tuple[Placed]:
        layer = placed.layer
        if isinstance(layer, FlashAttention):
            layer = msgspec.structs.replace(layer, length=length, keys=min(layer.keys, length))
        return (replace(placed, layer=layer),)

    return edited(case, edit, sequence=length)

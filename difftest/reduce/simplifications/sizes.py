"""Smaller models: narrower, with fewer heads, shorter.

Sizes of a few units are small enough: even smaller ones make a case no clearer.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import msgspec

from difftest.cases.case import Case
from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.reduce.candidate import Candidate, Simplification, smaller, tried
from difftest.reduce.measure import simpler
from difftest.reduce.placed import Placed, edited, put_together, taken_apart

ORDER = 3
SMALL = (4, 3)
"""A size that two ranks share evenly, with more than one unit each, and one that they do not."""


def narrower(case: Case) -> Iterator[Candidate]:
    """One width made smaller wherever it occurs."""
    for width in sorted(_free_widths(case), reverse=True):
        yield from simpler(
            case, smaller(f"width {width}", width, SMALL, partial(_resized, case, None, width))
        )


def fewer_words(case: Case) -> Iterator[Candidate]:
    """A smaller vocabulary."""
    if size := case.model.tokens:
        yield from simpler(
            case, smaller(f"vocabulary {size}", size, SMALL, partial(_resized, case, ("vocabulary",), size))
        )


def even_sizes(case: Case) -> Iterator[Candidate]:
    """A larger width or vocabulary that the ranks share evenly."""
    ranks = math.lcm(*case.layout.mesh.shape)
    widths = [("width", width, None) for width in sorted(_free_widths(case))]
    for what, size, fields in [*widths, ("vocabulary", case.model.tokens, ("vocabulary",))]:
        if size % ranks:
            words = f"{what} {size}, which {ranks} ranks do not share evenly"
            yield from simpler(
                case, tried(words, partial(_resized, case, fields, size, size + -size % ranks))
            )


def smaller_own_sizes(case: Case) -> Iterator[Candidate]:
    """A smaller size that only some kinds of layers have, such as the kernel of convolutions."""
    sizes = {
        (field, getattr(layer, field), few)
        for _, layer in walk(case.model.layers)
        for field, few in layer.OWN_SIZES.items()
    }
    for field, size, few in sorted(sizes, reverse=True):
        yield from simpler(
            case, smaller(f"{field} {size}", size, few, partial(_resized, case, (field,), size))
        )


def smaller_forms(case: Case) -> Iterator[Candidate]:
    """Smaller layers of the same kind, such as attention with one or two heads."""
    for path, layer in walk(case.model.layers):
        for words, form in layer.smaller_forms():
            yield from simpler(case, tried(f"layer {path} {words}", partial(_replaced, case, path, form)))


def shorter(case: Case) -> Iterator[Candidate]:
    """No sequence, or a shorter one."""
    length = case.model.sequence
    least = max(layer.LEAST_SEQUENCE for _, layer in walk(case.model.layers))
    if length:
        words = f"sequence {length}"
        if not least:
            yield from tried(words, partial(put_together, case, taken_apart(case), sequence=0))
        few = (least,) if least else SMALL
        yield from simpler(case, smaller(words, length, few, partial(_shortened, case)))


SIMPLIFICATIONS: tuple[Simplification, ...] = (
    shorter,
    narrower,
    fewer_words,
    smaller_own_sizes,
    smaller_forms,
    even_sizes,
)


def made_odd(case: Case) -> Case:
    """The case with odd widths, vocabulary and rows, which an even number of ranks shares unevenly."""
    for width in _free_widths(case):
        case = _resized(case, None, width, _odd(width))
    case = (
        _resized(case, ("vocabulary",), case.model.tokens, _odd(case.model.tokens))
        if case.model.tokens
        else case
    )
    parts = case.training.accumulation
    return case.changed("data", batch=parts * _odd(case.data.batch // parts))


def _odd(size: int) -> int:
    return size if size % 2 else max(size - 1, 3)


def _free_widths(case: Case) -> set[int]:
    """The widths that others follow from: the model's input, and what its layers turn it into."""
    new = {layer.new_width for _, layer in walk(case.model.layers) if layer.new_width is not None}
    return new | {case.model.inputs}


def _resized(case: Case, fields: tuple[str, ...] | None, old: int, new: int) -> Case:
    """The case with `new` instead of `old` in the layers' `fields`, or in all fields that are widths."""

    def edit(_path: str, placed: Placed) -> tuple[Placed]:
        layer = placed.layer
        own = layer.width_fields if fields is None else fields
        changes = {
            field: new for field in own if field in layer.__struct_fields__ and getattr(layer, field) == old
        }
        return (replace(placed, layer=msgspec.structs.replace(layer, **changes)),)

    return edited(case, edit)


def _replaced(case: Case, at: str, layer: Layer) -> Case:
    """The case with another layer at a path."""
    return edited(case, lambda path, placed: (replace(placed, layer=layer) if path == at else placed,))


def _shortened(case: Case, length: int) -> Case:
    def edit(_path: str, placed: Placed) -> tuple[Placed]:
        return (replace(placed, layer=placed.layer.shortened(length)),)

    return edited(case, edit, sequence=length)

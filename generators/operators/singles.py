"""Programs of one operator, enumerated: every placement, and every variant of the call.

A variant changes one thing of the plain call (float32, normal numbers, contiguous operands): its dtype, its
form, the memory of its operands, the regime, its indices; or it has arguments that torch rejects. The
placements and the variants of a sample are combined so that all of both occur, and not every pair.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from difftest.cases.case import DType, Regime
from difftest.cases.layers.operator import FLOATS, Form, Items, Memory, Operand, OperandType, Operator
from difftest.cases.layout import Mesh, Placements, Replicate, Shard, replicated
from generators.operators.table import OperatorEntry, Sample, entries
from generators.operators.variants import (
    indexed,
    of_one_row,
    remembered,
    retyped,
    with_out,
    without_gradients,
)

REGIMES: tuple[Regime, ...] = (
    "ties",
    "kinks",
    "nonfinite",
    "offset",
    "signed_zeros",
    "extreme",
    "denormal",
    "large",
    "zeros",
    "tiny",
)
COARSE = frozenset(("bfloat16", "float16"))
MEMORY: tuple[Memory, ...] = ("transposed", "strided", "expanded")
FORMS: tuple[Form, ...] = ("inplace", "out", "method")
"""The forms beside the plain one, those of operators of their own first."""

T = TypeVar("T")

ByOperand = Mapping[str, Placements]


@dataclass(frozen=True, slots=True)
class Single:
    """One operator with the placements of its operands and the numbers it gets.

    `inference`: it runs in torch's inference mode, and no operand requires a gradient.
    """

    operator: Operator
    placements: ByOperand
    dtype: DType = "float32"
    regime: Regime = "normal"
    inference: bool = False


@dataclass(frozen=True, slots=True)
class _Variant:
    operator: Operator
    dtype: DType = "float32"
    regime: Regime = "normal"


@functools.lru_cache(maxsize=4096)
def first_singles(name: str, mesh: Mesh) -> tuple[Single, ...]:
    """The programs of the entry called `name` that reach most, on `mesh`.

    All operands are cut: plain, in another form, both in inference mode; and plain with all operands whole. A
    backend may lack what it needs for a gradient, or for cut operands, and have the operator itself.
    """
    entry = entries()[name]
    sample, other = entry.samples[0], _of_most_tensors(entry)
    plain, formed = entry.operator(sample, form=entry.form), _in_another_form(entry)
    calls = [(plain, sample), formed or (entry.operator(other, form=entry.form), other)]
    cut = [Single(one, _placed(one, placements(own.operands, mesh)[0], mesh)) for one, own in calls]
    inferred = [
        replace(variant, operator=without_gradients(variant.operator), inference=True) for variant in cut
    ]
    return (*cut, *inferred, Single(plain, _placed(plain, {}, mesh)))


def _of_most_tensors(entry: OperatorEntry) -> Sample:
    """The sample with most operands; of several one without lists, which DTensor does not take as indices."""
    last_first = reversed(entry.samples)
    return max(
        last_first, key=lambda one: (len(one.operands), not any(isinstance(a, Items) for a in one.arguments))
    )


def _in_another_form(entry: OperatorEntry) -> tuple[Operator, Sample] | None:
    """A call of the entry that writes into a tensor, or is a method; and its sample."""
    for form, sample in itertools.product(FORMS, entry.samples):
        if form in sample.forms and (operator := _formed(entry, sample, form)):
            return operator, sample
    return None


@functools.lru_cache(maxsize=4096)
def singles(name: str, mesh: Mesh) -> tuple[Single, ...]:
    """Every program of the entry called `name` alone on `mesh`; the first is plain, with all operands cut."""
    entry = entries()[name]
    calls = [list(_of_sample(_variants(entry, sample), sample.operands, mesh)) for sample in entry.samples]
    rejected = [
        [Single(entry.operator(sample, form=entry.form, rejects=True), placed)]
        for sample in entry.errors
        for placed in placements(sample.operands, mesh)[:1]
    ]
    return tuple(_in_turn([*calls, *rejected]))


def _of_sample(variants: Sequence[_Variant], operands: Mapping[str, Operand], mesh: Mesh) -> Iterator[Single]:
    placed = placements(operands, mesh)
    for number in range(max(len(placed), len(variants))):
        variant = variants[number % len(variants)]
        own = _placed(variant.operator, placed[number % len(placed)], mesh)
        yield Single(variant.operator, own, variant.dtype, variant.regime)


def _placed(operator: Operator, chosen: ByOperand, mesh: Mesh) -> ByOperand:
    """The chosen placements, and all other operands whole."""
    everywhere = replicated(mesh)
    return {name: chosen.get(name, everywhere) for name in operator.operands}


def placements(operands: Mapping[str, Operand], mesh: Mesh) -> tuple[ByOperand, ...]:
    """All operands sharded along their first dims, each alone along each of its dims, all whole.

    Over two axes, one dim is also sharded twice.
    """
    everywhere = replicated(mesh)
    if mesh.world_size == 1:
        return (dict.fromkeys(operands, everywhere),)
    first = {name: _cut(operand, 0, mesh, together=False) for name, operand in operands.items()}
    last = {
        name: _cut(operand, len(operand.shape) - 1, mesh, together=False)
        for name, operand in operands.items()
    }
    alone = (
        {other: cut if other == name else everywhere for other in operands}
        for name, operand in operands.items()
        for dim in range(len(operand.shape))
        for cut in _cuts(operand, dim, mesh)
    )
    return tuple(_distinct([first, *alone, last, dict.fromkeys(operands, everywhere)]))


def _cuts(operand: Operand, dim: int, mesh: Mesh) -> Iterable[Placements]:
    """The placements that shard `dim`."""
    if len(mesh.axes) == 1:
        return [(Shard(dim),)]
    rest = (Replicate(),) * (len(mesh.axes) - 1)
    together = _cut(operand, dim, mesh, together=True)
    return [together, (Shard(dim), *rest), (*rest, Shard(dim)), _cut(operand, dim, mesh, together=False)]


def _cut(operand: Operand, dim: int, mesh: Mesh, *, together: bool) -> Placements:
    """`dim` sharded over the first axis, the dims after it over the others, or all axes on one dim."""
    dims = len(operand.shape)
    if not dims:
        return replicated(mesh)
    return tuple(Shard(dim if together else (dim + axis) % dims) for axis in range(len(mesh.axes)))


def _variants(entry: OperatorEntry, sample: Sample) -> Sequence[_Variant]:
    plain = entry.operator(sample, form=entry.form)
    forms = [_formed(entry, sample, form) for form in sample.forms]
    dtypes = [dtype for dtype in sample.dtypes if dtype in FLOATS]
    whole = [dtype for dtype in sample.dtypes if dtype not in FLOATS]
    # parameters are contiguous
    laid = [remembered(plain, memory) for memory in MEMORY if not sample.made]
    return [
        _Variant(plain),
        *_in_turn(
            [
                [_Variant(plain, dtype=cast("DType", dtype)) for dtype in dtypes],
                [_Variant(form) for form in forms if form],
                [_Variant(plain, regime=regime) for regime in REGIMES if regime not in sample.refused]
                if is_free(plain)
                else [],
                [_Variant(retyped(plain, one, sample.integers)) for one in whole],
                [_Variant(layout) for layout in laid if layout],
                [_mixed(plain, sample, mix) for mix in sample.mixed],
                [_Variant(indexed(plain, kind), regime="boundary") for kind in sample.indices],
                [_Variant(row, regime="ties")] if (row := of_one_row(plain)) else [],
            ]
        ),
    ]


def _formed(entry: OperatorEntry, sample: Sample, form: Form) -> Operator | None:
    operator = entry.operator(sample, form=form)
    return with_out(operator, sample.results) if form == "out" else operator


def _mixed(plain: Operator, sample: Sample, dtype: OperandType) -> _Variant:
    """Another dtype of the last floating-point operand.

    The case has the coarsest floating dtype, because the noise floor simulates the rounding of that alone.
    """
    *others, last = (name for name, operand in plain.operands.items() if operand.dtype == "float")
    if dtype in COARSE:
        return _Variant(retyped(plain, "float32", sample.integers, only=others), cast("DType", dtype))
    return _Variant(retyped(plain, dtype, sample.integers, only=(last,)))


def is_free(operator: Operator) -> bool:
    """Whether the regime decides any value."""
    return any(
        operand.is_float and operand.values is None and 0 not in operand.shape
        for operand in operator.operands.values()
    )


def _in_turn(groups: Iterable[Iterable[T]]) -> Iterator[T]:
    """The first of every group, then the second of every group, and so on."""
    for row in itertools.zip_longest(*groups):
        yield from (variant for variant in row if variant is not None)


def _distinct(values: Iterable[ByOperand]) -> Iterator[ByOperand]:
    """The values without repetitions, in order."""
    kept: list[ByOperand] = []
    for value in values:
        if value not in kept:
            kept.append(value)
            yield value

"""Programs of 2 to 6 operators, drawn by Hypothesis: each operator takes the result of the one before it.

An operator comes from a sample whose operand has the shape of that result, or it is a plain one that takes
any shape. A program may update a tensor or a view of it in place, and then read what shares memory with it.
Updates come before everything that autograd keeps for the backward pass.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
from hypothesis import strategies as st

from difftest.cases.layers.operator import (
    MOST_ELEMENTS,
    Argument,
    Form,
    Items,
    Operand,
    Operator,
    Reference,
)
from generators.chances import equally, sometimes, weighted
from generators.operators.table import OperatorEntry, Sample, entries, usable
from generators.operators.undefined import documented

UNARY = ("neg", "sin", "tanh", "sigmoid", "abs", "exp", "nn.functional.relu", "clone", "square", "contiguous")
BINARY = ("add", "sub", "mul", "maximum", "minimum", "atan2", "eq", "lt")
KEEPS_NOTHING = ("add", "sub", "neg", "mul")
"""Operators whose results may be overwritten: autograd does not keep them."""

UPDATES = ("add", "mul", "sub", "neg", "sin", "tanh")
VIEWS = ("transpose", "unsqueeze", "flatten", "narrow", "select")

Shape: TypeAlias = tuple[int, ...]
Start: TypeAlias = tuple[OperatorEntry, Sample]
Place: TypeAlias = tuple[OperatorEntry, Sample, str]
"""An operand of a sample that an earlier result can stand for."""


@dataclass(slots=True)
class _Chain:
    """The operators so far, the last result, and the earlier tensors by their shapes."""

    operators: list[Operator] = field(default_factory=list)
    shape: Shape = ()
    alike: dict[Shape, list[str]] = field(default_factory=dict)

    last: Reference = field(default_factory=lambda: Reference(""))

    def add(self, operator: Operator, shape: Shape, result: str = "output") -> None:
        index = len(self.operators)
        self.operators.append(operator)
        for name, operand in operator.operands.items():
            if operand.dtype == "float" and operator.form != "out":
                self.alike.setdefault(operand.shape, []).append(f"{index}.{name}")
        self.shape, self.last = shape, Reference(f"{index}.{result}")
        self.alike.setdefault(shape, []).append(self.last.name)


@functools.cache
@st.composite
def chains(draw: st.DrawFn) -> tuple[Operator, ...]:
    """The operators of one program."""
    length = draw(weighted((4, 2), (4, 3), (2, 4), (1, 5), (1, 6)))
    chain = _Chain()
    if draw(sometimes(one_in=3)):
        _draw_update(draw, chain)
    else:
        entry, sample = draw(st.sampled_from(starts()))
        form: Form = "inplace" if "inplace" in sample.forms and draw(sometimes(one_in=4)) else entry.form
        chain.add(entry.operator(sample, form=form), sample.results[0].shape, sample.results[0].name)
    while len(chain.operators) < length:
        _draw_link(draw, chain)
    return tuple(chain.operators)


@functools.cache
@st.composite
def behind_norms(draw: st.DrawFn) -> tuple[Operator, ...]:
    """A norm over the first dim, which is none of shards' sum, and one to three plain operators behind it.

    It needs no gradient: DTensor has no rule for what torch computes that with.
    """
    shape = draw(equally((4, 6), (5, 3), (8,), (2, 4, 3)))
    chain, entry = _Chain(), entries()["linalg.vector_norm"]
    options = {"ord": draw(weighted((4, 2.0), (1, 1.0), (1, 3.0))), "dim": 0}
    norm = Operator(
        operator=entry.name,
        call=entry.calls[entry.form],
        operands={"input": Operand(shape=shape, gradient=False)},
        arguments=(Reference("input"),),
        options=options,
        form=entry.form,
    )
    chain.add(norm, shape[1:])
    for _ in range(draw(st.integers(1, 3))):
        _draw_multiple(draw, chain) if draw(st.booleans()) else _draw_link(draw, chain)
    return tuple(chain.operators)


def _draw_multiple(draw: st.DrawFn, chain: _Chain) -> None:
    """The last result times a number, or a tensor, of either sign."""
    entry, shape = entries()["mul"], chain.shape
    if draw(st.booleans()):
        _add_plain(draw, chain, entry.name)
    else:
        chain.add(_binary(entry, chain.last, draw(equally(-2.0, -1.0, 0.5)), {}), shape)


def _draw_update(draw: st.DrawFn, chain: _Chain) -> None:
    """A result, often a view of it, an update in place, and perhaps something that reads the first result."""
    shape = draw(equally((4, 6), (5, 3), (8,), (2, 4, 3), (3,), (4, 1)))
    _add_plain(draw, chain, draw(equally(*KEEPS_NOTHING)), shape=shape)
    base = chain.last.name
    if draw(weighted((2, True), (1, False))):
        _add_view(draw, chain)
    _add_plain(draw, chain, draw(equally(*UPDATES)), form="inplace")
    if draw(st.booleans()):
        shape = next(shape for shape, names in chain.alike.items() if base in names)
        entry = entries()[draw(equally("mul", "add"))]
        chain.add(_binary(entry, Reference(base), Reference(base), {}), shape)


def _draw_link(draw: st.DrawFn, chain: _Chain) -> None:
    fitting = places().get(chain.shape, ())
    kind = draw(weighted((5 if fitting else 0, "sample"), (1, "unary"), (3, "binary"), (2, "view")))
    if kind == "sample":
        entry, sample, name = draw(st.sampled_from(fitting))
        operator = entry.operator(sample, form=entry.form)
        chain.add(_fed(operator, name, chain.last), sample.results[0].shape, sample.results[0].name)
    elif kind == "view" and chain.shape and 0 not in chain.shape:
        _add_view(draw, chain)
    else:
        _add_plain(draw, chain, draw(equally(*(UNARY if kind == "unary" else BINARY[:6]))))


def _fed(operator: Operator, name: str, source: Reference) -> Operator:
    """The operator with another tensor in the place of its operand `name`."""
    operands = {own: operand for own, operand in operator.operands.items() if own != name}
    arguments = tuple(_renamed(argument, name, source) for argument in operator.arguments)
    options = {key: _renamed(option, name, source) for key, option in operator.options.items()}
    return msgspec.structs.replace(operator, operands=operands, arguments=arguments, options=options)


def _renamed(argument: Argument, name: str, source: Reference) -> Argument:
    if isinstance(argument, Items):
        return Items(tuple(_renamed(item, name, source) for item in argument.items), argument.kind)
    return source if argument == Reference(name) else argument


def _add_plain(
    draw: st.DrawFn, chain: _Chain, name: str, *, form: Form | None = None, shape: Shape | None = None
) -> None:
    """An operator on the last result, or on an operand of its own with `shape`, and on a second tensor."""
    entry, operands = entries()[name], dict[str, Operand]()
    first = chain.last if shape is None else Reference("input")
    if shape is not None:
        operands["input"] = Operand(shape=shape)
    shape = chain.shape if shape is None else shape
    form = form or entry.form
    if name not in BINARY:
        call = Operator(
            operator=name, call=entry.calls[form], operands=operands, arguments=(first,), form=form
        )
        chain.add(call, shape)
        return
    earlier = chain.alike.get(shape, [])
    if earlier and form != "inplace" and draw(st.booleans()):
        second = Reference(draw(equally(*earlier)))
    else:
        operands["other"], second = Operand(shape=_draw_broadcast(draw, shape)), Reference("other")
    chain.add(_binary(entry, first, second, operands, form), shape)


def _binary(
    entry: OperatorEntry,
    first: Reference,
    second: Reference | float,
    operands: Mapping[str, Operand],
    form: Form = "function",
) -> Operator:
    return Operator(
        operator=entry.name, call=entry.calls[form], operands=operands, arguments=(first, second), form=form
    )


def _draw_broadcast(draw: st.DrawFn, shape: Shape) -> Shape:
    """A shape that broadcasts to `shape`: itself, some dims of size 1, the last dims alone, or none."""
    ones = tuple(1 if index % 2 else size for index, size in enumerate(shape))
    return draw(weighted((3, shape), (1, ones), (1, shape[1:]), (1, ())))


def _add_view(draw: st.DrawFn, chain: _Chain) -> None:
    """A view of the last result, which has dims and elements."""
    shape, name = chain.shape, draw(equally(*VIEWS))
    dims, arguments = len(shape), tuple[int, ...]()
    match name:
        case "transpose":
            arguments, shape = (0, dims - 1), (shape[-1], *shape[1:-1], shape[0]) if dims > 1 else shape
        case "unsqueeze":
            at = draw(st.integers(0, dims))
            arguments, shape = (at,), (*shape[:at], 1, *shape[at:])
        case "narrow":
            length = (shape[0] + 1) // 2
            arguments, shape = (0, shape[0] - length, length), (length, *shape[1:])
        case "select":
            arguments, shape = (dims - 1, shape[-1] - 1), shape[:-1]
        case _:
            shape = (math.prod(shape),)
    entry = entries()[name]
    call = Operator(
        operator=name,
        call=entry.calls[entry.form],
        operands={},
        arguments=(chain.last, *arguments),
        form=entry.form,
    )
    chain.add(call, shape)


@functools.cache
def starts() -> Sequence[Start]:
    """The samples whose first result is of the case's dtype."""
    return tuple((entry, sample) for entry, sample in _followed() if _is_plain(entry))


@functools.cache
def places() -> Mapping[Shape, Sequence[Place]]:
    """By shape, the operands that may have any values, so that a result can stand for them."""
    by_shape: dict[Shape, list[Place]] = {}
    for entry, sample in _followed():
        for name, one in sample.operands.items() if _is_plain(entry) else ():
            free = one.dtype == "float" and one.values is None and one.low is None and one.high is None
            if (
                free
                and sample.gradient
                and one.gradient
                and one.memory == "contiguous"
                and entry.form != "inplace"
            ):
                by_shape.setdefault(one.shape, []).append((entry, sample, name))
    return by_shape


def _followed() -> Iterator[Start]:
    for entry in usable():
        for sample in entry.samples:
            first = sample.results[0]
            if first.dtype == "float" and math.prod(first.shape) <= MOST_ELEMENTS:
                yield entry, sample


def _is_plain(entry: OperatorEntry) -> bool:
    """Whether its result is defined for all values, equal ones too, or else a program says so."""
    gap = documented(entry.name)
    return gap is None or gap[0] == "drawn"

"""Smaller programs: fewer operators, no operand that is not used, and smaller operands.

What an operator needs of its operands is not known here. The oracle's run decides whether a program is valid:
a case that the oracle rejects shows no fault.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np

from difftest.cases.case import Case
from difftest.cases.layers.operator import Argument, Items, Operand, Operator, Reference, full_name
from difftest.cases.layout import Placements, replicated
from difftest.reduce.candidate import Candidate, Simplification, by_parts, smaller, tried
from difftest.reduce.measure import simpler
from difftest.reduce.placed import Placed, edited, put_together, taken_apart

ORDER = 1
SMALL = (2, 3)
"""Sizes to try: one that two ranks share evenly, and one that they do not."""


def fewer_operators(case: Case) -> Iterator[Candidate]:
    """Without one of several operators, the last ones first; what later ones refer to becomes an operand."""
    operators = tuple(case.model.operators.values())
    for index in reversed(range(len(operators) if len(operators) > 1 else 0)):
        words = f"operator {index}, {operators[index].title}"
        for shape in _possible_results(operators, index):
            yield from tried(words, partial(_without_operator, case, index, shape))


def unused_operands(case: Case) -> Iterator[Candidate]:
    """Without operands that no argument names."""
    operators = tuple(case.model.operators.values())
    used = {
        full_name(str(index), name)
        for index, operator in enumerate(operators)
        for name in operator.references()
    }
    unused = [
        (f"unused operand {index}.{name}", f"{index}.{name}")
        for index, operator in enumerate(operators)
        for name in operator.operands
        if f"{index}.{name}" not in used and not (operator.form == "out" and name == "out")
    ]
    yield from by_parts(unused, partial(_without_operands, case))


def smaller_dims(case: Case) -> Iterator[Candidate]:
    """One size made smaller in every operand that has it, and in the arguments where they have it too."""
    operators = tuple(case.model.operators.values())
    for size in sorted(
        {size for operator in operators for o in operator.operands.values() for size in o.shape}
    )[::-1]:
        named = any(
            size in _numbers((*operator.arguments, *operator.options.values())) for operator in operators
        )
        for arguments in (True, False) if named else (False,):
            resized = partial(_resized, case, size, arguments)
            yield from simpler(case, smaller(f"a dim of {size}", size, SMALL, resized))


SIMPLIFICATIONS: tuple[Simplification, ...] = (fewer_operators, unused_operands, smaller_dims)


def _without_operator(case: Case, dropped: int, shape: tuple[int, ...]) -> Case:
    """The program without an operator, whose results become operands of `shape`."""
    layers = taken_apart(case)
    gone = layers[dropped]
    where = next(iter(gone.placements.values()), replicated(case.layout.mesh))
    left = [
        placed if index < dropped else _refer(placed, dropped, gone, Operand(shape=shape), where)
        for index, placed in enumerate(layers)
        if index != dropped
    ]
    return put_together(case, tuple(left))


def _refer(placed: Placed, dropped: int, gone: Placed, result: Operand, where: Placements) -> Placed:
    """A later operator that refers to what is left: operands of its own stand for those that are gone."""
    operator, lost = _operator(placed), _operator(gone)
    operands, placements = dict(operator.operands), dict(placed.placements)

    def renamed(name: str) -> str:
        index, _, rest = name.partition(".")
        if not rest or int(index) < dropped:
            return name
        if int(index) > dropped:
            return f"{int(index) - 1}.{rest}"
        own = f"from_{index}_{rest.replace('.', '_')}"
        operands[own] = lost.operands.get(rest, result)
        placements[own] = gone.placements.get(rest, where)
        return own

    changed = _mapped(
        operator, lambda one: Reference(renamed(one.name)) if isinstance(one, Reference) else one
    )
    return replace(placed, layer=msgspec.structs.replace(changed, operands=operands), placements=placements)


def _possible_results(operators: Sequence[Operator], index: int) -> Iterator[tuple[int, ...]]:
    """The shapes that an operator's result may have, the likeliest first: that of its operands together."""
    shapes = [_shape(operators, index, name) for name in operators[index].references()]
    try:
        together = [np.broadcast_shapes(*shapes)]
    except ValueError:
        together = []
    yield from dict.fromkeys((*together, *shapes, ()))


def _shape(operators: Sequence[Operator], index: int, name: str) -> tuple[int, ...]:
    """The shape of a tensor that operator `index` refers to; likely that of an earlier result."""
    at, _, rest = name.partition(".")
    if not rest:
        return operators[index].operands[name].shape
    own = operators[int(at)].operands
    return own[rest].shape if rest in own else next(_possible_results(operators, int(at)))


def _without_operands(case: Case, names: Sequence[str]) -> Case:
    def edit(path: str, placed: Placed) -> tuple[Placed]:
        operator = _operator(placed)
        left = {name: operand for name, operand in operator.operands.items() if f"{path}.{name}" not in names}
        return (replace(placed, layer=msgspec.structs.replace(operator, operands=left)),)

    return edited(case, edit)


def _resized(case: Case, old: int, arguments: bool, new: int) -> Case:  # noqa: FBT001  bound by `partial`
    """The program with `new` instead of the size `old`; in `arguments` too, where they have it."""

    def edit(_path: str, placed: Placed) -> tuple[Placed]:
        operator = _operator(placed)
        operands = {name: _smaller_operand(operand, old, new) for name, operand in operator.operands.items()}
        if arguments:
            operator = _mapped(operator, lambda one: new if type(one) is int and one == old else one)
        return (replace(placed, layer=msgspec.structs.replace(operator, operands=operands)),)

    return edited(case, edit)


def _smaller_operand(operand: Operand, old: int, new: int) -> Operand:
    """An operand with another size, and the first of its values; indices stay below the new size."""
    shape = tuple(new if size == old else size for size in operand.shape)
    if operand.values is None or shape == operand.shape:
        return msgspec.structs.replace(operand, shape=shape)
    values = np.reshape(operand.values, operand.shape)[tuple(map(slice, shape))]
    if not operand.is_float and np.abs(values).max(initial=0) <= old:
        values = np.fmod(values, new)
    return msgspec.structs.replace(operand, shape=shape, values=tuple(values.ravel().tolist()))


def _operator(placed: Placed) -> Operator:
    """The operator that a layer of a program is."""
    assert isinstance(placed.layer, Operator)  # noqa: S101
    return placed.layer


def _mapped(operator: Operator, change: Callable[[Argument], Argument]) -> Operator:
    """The operator with every argument changed."""

    def mapped(argument: Argument) -> Argument:
        if isinstance(argument, Items):
            return msgspec.structs.replace(argument, items=tuple(map(mapped, argument.items)))
        return change(argument)

    options = {name: mapped(value) for name, value in operator.options.items()}
    return msgspec.structs.replace(
        operator, arguments=tuple(map(mapped, operator.arguments)), options=options
    )


def _numbers(arguments: Sequence[Argument]) -> Iterator[int]:
    """The whole numbers in some arguments."""
    for argument in arguments:
        if isinstance(argument, Items):
            yield from _numbers(argument.items)
        elif type(argument) is int:
            yield argument

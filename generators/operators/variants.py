"""Variants of one call: other dtypes, other forms, other memory of its operands."""

import math
from collections.abc import Sequence
from typing import get_args

import msgspec

from difftest.cases.layers.operator import FLOATS, Memory, Operand, OperandType, Operator, Reference
from generators.operators.table import SampleResult

LEAST_ELEMENTS = 2
INDICES = ("repeated", "negative")
"""Other indices that an operator may be given."""


def retyped(
    operator: Operator, dtype: OperandType, integers: tuple[int, int], *, only: Sequence[str] = ()
) -> Operator:
    """The operator with another dtype of its `float` operands, or of those called `only`.

    Integers are between the two `integers`.
    """
    operands = {
        name: _retyped(operand, dtype, integers)
        if operand.dtype == "float" and (not only or name in only)
        else operand
        for name, operand in operator.operands.items()
    }
    return msgspec.structs.replace(operator, operands=operands)


def _retyped(operand: Operand, dtype: OperandType, integers: tuple[int, int]) -> Operand:
    if dtype in FLOATS:
        return msgspec.structs.replace(operand, dtype=dtype)
    low, high = (0, 1) if dtype == "bool" else integers
    low = max(low, 0) if dtype == "uint8" else low
    values = operand.values
    if values is not None:
        values = tuple(float(min(max(round(value), low), high)) for value in values)
    return msgspec.structs.replace(
        operand, dtype=dtype, low=float(low), high=float(high), values=values, gradient=False
    )


def with_out(operator: Operator, results: Sequence[SampleResult]) -> Operator | None:
    """The operator with an operand `out` for its only result, without gradients.

    None if it has several, or one of a dtype that operands do not have, such as `complex64` or `uint64`.
    """
    if len(results) != 1 or "out" in operator.options or results[0].dtype not in get_args(OperandType):
        return None
    out = _out(results[0])
    return msgspec.structs.replace(
        operator,
        operands={**without_gradients(operator).operands, "out": out},
        options={**operator.options, "out": Reference("out")},
        form="out",
    )


def without_gradients(operator: Operator) -> Operator:
    """The operator none of whose operands requires a gradient."""
    operands = {
        name: msgspec.structs.replace(operand, gradient=False) for name, operand in operator.operands.items()
    }
    return msgspec.structs.replace(operator, operands=operands)


def remembered(operator: Operator, memory: Memory) -> Operator | None:
    """The operator with its operands in such memory; None if none can be."""
    operands = {name: _laid(operand, memory) for name, operand in operator.operands.items()}
    changed = operands != operator.operands
    return msgspec.structs.replace(operator, operands=operands) if changed else None


def _laid(operand: Operand, memory: Memory) -> Operand:
    """The operand in such memory, where its shape allows it and its values are free."""
    if not operand.is_float or operand.values is not None or math.prod(operand.shape) < LEAST_ELEMENTS:
        return operand
    changed = msgspec.structs.replace(operand, memory=memory)
    return operand if changed.contradiction() else changed


def indexed(operator: Operator, kind: str) -> Operator:
    """The operator with other indices, all of them literal: the first and the last in turn, or -1.

    `kind` is one of `INDICES`.
    """
    operands = {
        name: msgspec.structs.replace(operand, values=_indices(operand.values, kind))
        if operand.dtype in {"int32", "int64"} and operand.values
        else operand
        for name, operand in operator.operands.items()
    }
    return msgspec.structs.replace(operator, operands=operands)


def of_one_row(operator: Operator) -> Operator | None:
    """The operator with the first row of its index alone, beside a source of several; None without these.

    Torch computes a gradient of such a source where it is reduced by these alone, and else raises.
    """
    operands = dict(operator.operands)
    name = next((name for name in ("src", "value") if name in operands), "")
    index, source = operands.get("index"), operands.get(name)
    if not (source and index and index.values and index.shape == source.shape and index.shape[:1] > (1,)):
        return None
    shape = (1, *index.shape[1:])
    operands["index"] = msgspec.structs.replace(index, shape=shape, values=index.values[: math.prod(shape)])
    learns = source.gradient and any(kind in operator.arguments for kind in ("prod", "amax", "amin"))
    operands[name] = msgspec.structs.replace(source, gradient=learns)
    return msgspec.structs.replace(operator, operands=operands)


def _indices(values: tuple[float, ...], kind: str) -> tuple[float, ...]:
    ends = (-1.0 if kind == "negative" else max(values), min(values))
    return tuple(ends[number % 2] for number in range(len(values)))


def _out(result: SampleResult) -> Operand:
    out = Operand(shape=result.shape, dtype=result.dtype, gradient=False)  # type: ignore[arg-type]
    if out.is_float:
        return out
    return msgspec.structs.replace(out, low=0.0, high=1.0)

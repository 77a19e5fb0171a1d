"""Instructions of one device: constants, elements, reductions, and the like."""

# ruff: noqa: ARG001, ARG005  what evaluates an instruction has the parameters of all others

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from difftest.passes import elementwise, movement, windows
from difftest.passes.arrays import Array, NotEvaluatedError, dtype_of, literal
from difftest.passes.evaluator import Evaluator
from difftest.passes.hlo import Computation, Instruction, Shape

Value: TypeAlias = "Array | tuple[Any, ...]"
"""An array, or a tuple of values."""

_MONOIDS: Mapping[str, Any] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.logical_and,
    "or": np.logical_or,
}

Operands: TypeAlias = Sequence[Any]
"""The operands' values."""

Shapes: TypeAlias = Sequence[Shape]
"""The operands' shapes."""

Alone: TypeAlias = Callable[[Evaluator, Instruction, Operands, Shapes], Any]


def _convert(machine: Evaluator, instruction: Instruction, operands: Operands, shapes: Shapes) -> Array:
    dtype = dtype_of(instruction.shape.type, wide=machine.wide)
    x = operands[0]
    if x.dtype.kind == "f" and dtype.kind in "iu":  # out of range saturates, and NaN is 0
        bounds = np.iinfo(dtype)
        return np.asarray(
            np.where(np.isnan(x), 0, np.clip(np.trunc(x), bounds.min, bounds.max)).astype(dtype)
        )
    return np.asarray(x.real.astype(dtype) if x.dtype.kind == "c" and dtype.kind != "c" else x.astype(dtype))


def _bitcast_convert(
    machine: Evaluator, instruction: Instruction, operands: Operands, shapes: Shapes
) -> Array:
    narrow = operands[0].astype(dtype_of(shapes[0].type, wide=False))
    if "bf16" in (shapes[0].type, instruction.shape.type):
        msg = "the instruction bitcast-convert of bf16 is not evaluated"
        raise NotEvaluatedError(msg)
    other = np.ascontiguousarray(narrow).view(dtype_of(instruction.shape.type, wide=False))
    return other.reshape(instruction.shape.dims)


def _compare(machine: Evaluator, instruction: Instruction, operands: Operands, shapes: Shapes) -> Array:
    total = instruction.attributes.get("type", "") == "TOTALORDER"
    return elementwise.compared(operands[0], operands[1], instruction.attributes["direction"], total=total)


def _reduce(machine: Evaluator, instruction: Instruction, operands: Operands, shapes: Shapes) -> Value:
    half = len(operands) // 2
    results = _fold(machine, instruction)(
        list(operands[:half]), list(operands[half:]), instruction.numbers("dimensions")
    )
    return _one_or_tuple(machine, instruction, results)


def _reduce_window(machine: Evaluator, instruction: Instruction, operands: Operands, shapes: Shapes) -> Value:
    half = len(operands) // 2
    results = windows.reduce_window(
        list(operands[:half]), list(operands[half:]), instruction, _fold(machine, instruction)
    )
    return _one_or_tuple(machine, instruction, results)


def _one_or_tuple(machine: Evaluator, instruction: Instruction, results: Sequence[Array]) -> Value:
    if instruction.shape.type != "tuple":
        return results[0]
    return tuple(
        machine.held(each, part) for each, part in zip(results, instruction.shape.parts, strict=True)
    )


def _fold(machine: Evaluator, instruction: Instruction) -> windows.Fold:
    """How the instruction's computation reduces arrays over dims."""
    name = instruction.attributes["to_apply"]
    opcode = _monoid(machine.module.computations[name])

    def fold(xs: list[Array], initial: list[Array], dims: tuple[int, ...]) -> list[Array]:
        if opcode and len(xs) == 1 and (opcode not in ("and", "or") or xs[0].dtype == np.bool_):
            apply = elementwise.BINARY[opcode]
            total = (
                _MONOIDS[opcode].reduce(xs[0], axis=dims, initial=None, dtype=xs[0].dtype)
                if all(xs[0].shape[dim] for dim in dims)
                else initial[0]
            )
            return [apply(np.asarray(total, xs[0].dtype), initial[0])]
        return _in_turn(machine, name, xs, initial, dims)

    return fold


def _in_turn(
    machine: Evaluator, name: str, xs: list[Array], initial: list[Array], dims: tuple[int, ...]
) -> list[Array]:
    """The reduction by the computation `name`, element after element."""
    rest = [dim for dim in range(xs[0].ndim) if dim not in dims]
    kept = [xs[0].shape[dim] for dim in rest]
    rows = [x.transpose(*dims, *rest).reshape(-1, *kept) for x in xs]
    sums: list[Array] = [np.broadcast_to(value, kept) for value in initial]
    for at in range(len(rows[0])):
        made = machine.scalars(name, [*sums, *(row[at] for row in rows)])
        sums = list(made) if isinstance(made, tuple) else [made]
    return [np.broadcast_to(total, kept) for total in sums]


def _monoid(computation: Computation) -> str:
    """The opcode of a computation that applies one to its two parameters; empty for any other."""
    root = computation.result
    inside = {name.name for name in computation.parameters}
    plain = root.opcode in _MONOIDS and set(root.operands) == inside and len(computation.instructions) == 3  # noqa: PLR2004  two parameters and the root
    return root.opcode if plain else ""


def _scatter(machine: Evaluator, instruction: Instruction, operands: Operands, shapes: Shapes) -> Value:
    count = len(operands) // 2
    xs, indices, updates = list(operands[:count]), operands[count], operands[count + 1 :]
    results = [x.copy() for x in xs]
    name = instruction.attributes["to_apply"]
    for block, update in movement.scatter_places(xs[0], indices, updates[0], instruction):
        new = machine.scalars(name, [*(x[block] for x in results), *(each[update] for each in updates)])
        for x, value in zip(results, new if isinstance(new, tuple) else (new,), strict=True):
            x[block] = np.broadcast_to(value, x[block].shape)
    return _one_or_tuple(machine, instruction, results)


def _select_and_scatter(
    machine: Evaluator, instruction: Instruction, operands: Operands, shapes: Shapes
) -> Array:
    select, scatter = (instruction.attributes[key] for key in ("select", "scatter"))
    x, source, initial = operands
    return windows.select_and_scatter(
        x,
        source,
        initial,
        instruction,
        lambda x, y: bool(machine.scalars(select, [np.asarray(x), np.asarray(y)])),
        lambda x, y: cast("Array", machine.scalars(scatter, [np.asarray(x), np.asarray(y)])),
    )


def _sort(machine: Evaluator, instruction: Instruction, operands: Operands, shapes: Shapes) -> Value:
    dim = instruction.numbers("dimensions")[0]
    name = instruction.attributes["to_apply"]
    rows = [np.moveaxis(x, dim, -1) for x in operands]
    in_order = [row.copy() for row in rows]
    for at in np.ndindex(*rows[0].shape[:-1]):

        def before(i: int, j: int, at: tuple[int, ...] = at) -> int:
            pairs = [np.asarray(row[at][k]) for row in rows for k in (i, j)]
            if bool(machine.scalars(name, pairs)):
                return -1
            turned = [np.asarray(row[at][k]) for row in rows for k in (j, i)]
            return int(bool(machine.scalars(name, turned)))

        order = sorted(range(rows[0].shape[-1]), key=functools.cmp_to_key(before))
        for row, sorted_row in zip(rows, in_order, strict=True):
            sorted_row[at] = row[at][order]
    return _one_or_tuple(machine, instruction, [np.moveaxis(row, -1, dim) for row in in_order])


def _batch_norm_training(
    machine: Evaluator, instruction: Instruction, operands: Operands, shapes: Shapes
) -> Value:
    x, scale, offset = operands
    dim = instruction.numbers("feature_index")[0]
    others = tuple(each for each in range(x.ndim) if each != dim)
    mean, variance = x.mean(others), x.var(others)
    normalised = _normalised((x, scale, offset, mean, variance), instruction)
    return tuple(
        machine.held(each, part)
        for each, part in zip((normalised, mean, variance), instruction.shape.parts, strict=True)
    )


def _normalised(operands: Operands, instruction: Instruction) -> Array:
    x, scale, offset, mean, variance = operands
    dim, epsilon = instruction.numbers("feature_index")[0], float(instruction.attributes["epsilon"])
    shape = [1] * x.ndim
    shape[dim] = -1
    deviation = np.sqrt(variance.reshape(shape) + epsilon)
    made = (x - mean.reshape(shape)) / deviation * scale.reshape(shape) + offset.reshape(shape)
    return np.asarray(made)


def _custom_call(machine: Evaluator, instruction: Instruction, operands: Operands, shapes: Shapes) -> Value:
    target = instruction.attributes.get("custom_call_target", "").strip('"')
    if target in ("SPMDShardToFullShape", "SPMDFullToShardShape"):
        msg = f"the instruction custom-call of {target}, as shard_map writes it, is not evaluated"
        raise NotEvaluatedError(msg)
    if target == "Eigh":
        values, vectors = np.linalg.eigh(operands[0].astype(np.float64))
        return tuple(
            machine.held(x, part) for x, part in zip((vectors, values), instruction.shape.parts, strict=True)
        )
    if target in ("Sharding", "annotate_device_placement", "xla.sdy.FuncResultSharding"):
        return cast("Value", operands[0])
    if target == "AllocateBuffer":
        return np.zeros(instruction.shape.dims, dtype_of(instruction.shape.type, wide=machine.wide))
    msg = f"the instruction custom-call of {target} is not evaluated"
    raise NotEvaluatedError(msg)


ALONE: Mapping[str, Alone] = {
    "constant": lambda machine, op, operands, shapes: literal(op.text, op.shape, wide=machine.wide),
    "convert": _convert,
    "bitcast-convert": _bitcast_convert,
    "select": lambda _, op, operands, shapes: np.where(operands[0], operands[1], operands[2]),
    "clamp": lambda _, op, operands, shapes: np.minimum(np.maximum(operands[1], operands[0]), operands[2]),
    "compare": _compare,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "map": lambda machine, op, operands, shapes: machine.scalars(op.attributes["to_apply"], operands),
    "sort": _sort,
    "batch-norm-training": _batch_norm_training,
    "batch-norm-inference": lambda _, op, operands, shapes: _normalised(operands, op),
    "custom-call": _custom_call,
    "broadcast": lambda _, op, operands, shapes: movement.broadcast(operands[0], op),
    "reshape": lambda _, op, operands, shapes: operands[0].reshape(op.shape.dims),
    "bitcast": lambda _, op, operands, shapes: movement.bitcast(operands[0], shapes[0], op.shape),
    "transpose": lambda _, op, operands, shapes: operands[0].transpose(op.numbers("dimensions")),
    "reverse": lambda _, op, operands, shapes: np.flip(operands[0], op.numbers("dimensions")),
    "slice": lambda _, op, operands, shapes: movement.sliced(operands[0], op),
    "dynamic-slice": lambda _, op, operands, shapes: movement.dynamic_slice(operands[0], operands[1:], op),
    "dynamic-update-slice": lambda _, op, operands, shapes: movement.dynamic_update_slice(
        operands[0], operands[1], operands[2:]
    ),
    "pad": lambda _, op, operands, shapes: movement.pad(operands[0], operands[1], op),
    "concatenate": lambda _, op, operands, shapes: np.concatenate(operands, op.numbers("dimensions")[0]),
    "iota": lambda machine, op, operands, shapes: movement.iota(
        op, dtype_of(op.shape.type, wide=machine.wide)
    ),
    "gather": lambda _, op, operands, shapes: movement.gather(operands[0], operands[1], op),
    "dot": lambda _, op, operands, shapes: windows.dot(operands[0], operands[1], op),
    "convolution": lambda _, op, operands, shapes: windows.convolution(operands[0], operands[1], op),
    "get-dimension-size": lambda _, op, operands, shapes: np.asarray(
        operands[0].shape[op.numbers("dimensions")[0]], np.int32
    ),
    "reduce-precision": lambda _, op, operands, shapes: operands[0],
    "tuple": lambda _, op, operands, shapes: tuple(operands),
    "get-tuple-element": lambda _, op, operands, shapes: operands[0][op.numbers("index")[0]],
    "after-all": lambda _, op, operands, shapes: np.zeros((), bool),
    "add-dependency": lambda _, op, operands, shapes: operands[0],
    "copy-start": lambda _, op, operands, shapes: (operands[0], operands[0], np.zeros((), np.uint32)),
    "copy-done": lambda _, op, operands, shapes: operands[0][0],
    "domain": lambda _, op, operands, shapes: operands[0],
    "cholesky": lambda _, op, operands, shapes: np.linalg.cholesky(operands[0].astype(np.float64)),
}

"""Instructions of all devices: calls of other computations, and collectives."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from difftest.passes import movement
from difftest.passes.arrays import Array, Each, NotEvaluatedError
from difftest.passes.evaluator import Evaluator
from difftest.passes.hlo import Instruction

MOST_STEPS = 20_000
"""The most iterations of a loop; a longer one is refused."""

Together: TypeAlias = Callable[[Evaluator, Instruction, Sequence[Each]], Each]


def _called(machine: Evaluator, instruction: Instruction, operands: Sequence[Each]) -> Each:
    return machine.run(machine.module.computations[instruction.called()[0]], operands)


def _while(machine: Evaluator, instruction: Instruction, operands: Sequence[Each]) -> Each:
    """A loop; a device whose condition is false keeps what it holds while others go on."""
    condition, body = (
        machine.module.computations[instruction.attributes[key]] for key in ("condition", "body")
    )
    state = list(operands[0])
    while True:
        goes_on = [bool(flag) for flag in machine.run(condition, [state])]
        if not any(goes_on):
            return state
        machine.steps[0] += 1
        if machine.steps[0] > MOST_STEPS:
            msg = f"a loop of more than {MOST_STEPS} iterations is not evaluated"
            raise NotEvaluatedError(msg)
        after = machine.run(body, [state])
        state = [new if flag else old for new, old, flag in zip(after, state, goes_on, strict=True)]


def _conditional(machine: Evaluator, instruction: Instruction, operands: Sequence[Each]) -> Each:
    names = instruction.called()
    indices = [int(index) for index in operands[0]]
    if "true_computation" in instruction.attributes:
        indices = [1 - index for index in indices]
    indices = [index if 0 <= index < len(names) else len(names) - 1 for index in indices]
    results = {
        index: machine.run(machine.module.computations[names[index]], [operands[1 + index]])
        for index in set(indices)
    }
    return [results[index][device] for device, index in enumerate(indices)]


_OF_PARTITIONS = ("all-to-all", "collective-broadcast")
"""Collectives whose groups are of partitions where they have a channel."""


def _groups(machine: Evaluator, instruction: Instruction) -> list[list[int]]:
    """The devices that take part in a collective together, by group."""
    partitions, replicas = machine.module.partitions, machine.module.replicas
    text = instruction.attributes.get("replica_groups", "{}")
    if instruction.attributes.get("use_global_device_ids") == "true":
        return movement.groups(text, machine.devices)
    if "channel_id" in instruction.attributes and instruction.opcode in _OF_PARTITIONS:
        return [
            [r * partitions + p for p in group]
            for r in range(replicas)
            for group in movement.groups(text, partitions)
        ]
    listed = movement.groups(text, replicas)
    if "channel_id" in instruction.attributes:  # the replicas of a group, with all of their partitions
        return [[r * partitions + p for r in group for p in range(partitions)] for group in listed]
    return [[r * partitions + p for r in group] for p in range(partitions) for group in listed]


def _collective(
    machine: Evaluator,
    instruction: Instruction,
    operands: Sequence[Each],
    work: Callable[[list[Array]], list[Array]],
) -> Each:
    """What `work` makes of each operand of a group's members, member by member."""
    results: list[list[Any]] = [[None] * machine.devices for _ in operands]
    for group in _groups(machine, instruction):
        for which, each in enumerate(operands):
            for device, value in zip(group, work([each[device] for device in group]), strict=True):
                results[which][device] = value
    shapes = instruction.shape.parts or (instruction.shape,)
    held = [[machine.held(v, shape) for v in values] for values, shape in zip(results, shapes, strict=True)]
    return (
        held[0]
        if instruction.shape.type != "tuple"
        else [tuple(values) for values in zip(*held, strict=True)]
    )


def _total(machine: Evaluator, instruction: Instruction, parts: list[Array]) -> Array:
    name = instruction.attributes["to_apply"]
    return functools.reduce(lambda x, y: np.asarray(machine.scalars(name, [x, y])), parts)


def _all_reduce(machine: Evaluator, instruction: Instruction, operands: Sequence[Each]) -> Each:
    def work(parts: list[Array]) -> list[Array]:
        return [_total(machine, instruction, parts)] * len(parts)

    return _collective(machine, instruction, operands, work)


def _reduce_scatter(machine: Evaluator, instruction: Instruction, operands: Sequence[Each]) -> Each:
    dim = instruction.numbers("dimensions")[0]

    def work(parts: list[Array]) -> list[Array]:
        return list(np.split(_total(machine, instruction, parts), len(parts), dim))

    return _collective(machine, instruction, operands, work)


def _all_gather(machine: Evaluator, instruction: Instruction, operands: Sequence[Each]) -> Each:
    dim = instruction.numbers("dimensions")[0]

    def work(parts: list[Array]) -> list[Array]:
        return [np.concatenate(parts, dim)] * len(parts)

    return _collective(machine, instruction, operands, work)


def _all_to_all(machine: Evaluator, instruction: Instruction, operands: Sequence[Each]) -> Each:
    dims = instruction.numbers("dimensions")
    if dims:

        def work(parts: list[Array]) -> list[Array]:
            pieces = [np.split(part, len(parts), dims[0]) for part in parts]
            return [np.concatenate([piece[at] for piece in pieces], dims[0]) for at in range(len(parts))]

        return _collective(machine, instruction, operands, work)
    results: list[Any] = [None] * machine.devices
    for group in _groups(machine, instruction):
        for at, device in enumerate(group):
            results[device] = tuple(operands[at][other] for other in group)
    return results


def _collective_permute(machine: Evaluator, instruction: Instruction, operands: Sequence[Each]) -> Each:
    pairs = instruction.numbers("source_target_pairs")
    across = "channel_id" in instruction.attributes
    results = [np.zeros_like(value) for value in operands[0]]
    for source, target in zip(pairs[::2], pairs[1::2], strict=True):
        for other in range(1 if across else machine.module.partitions):
            step = 1 if across else machine.module.partitions
            results[target * step + other] = operands[0][source * step + other]
    return list(results)


TOGETHER: Mapping[str, Together] = {
    "call": _called,
    "fusion": _called,
    "while": _while,
    "conditional": _conditional,
    "partition-id": lambda machine, *_: [
        np.asarray(device % machine.module.partitions, np.uint32) for device in range(machine.devices)
    ],
    "replica-id": lambda machine, *_: [
        np.asarray(device // machine.module.partitions, np.uint32) for device in range(machine.devices)
    ],
    "all-reduce": _all_reduce,
    "reduce-scatter": _reduce_scatter,
    "all-gather": _all_gather,
    "all-to-all": _all_to_all,
    "collective-permute": _collective_permute,
    "collective-broadcast": lambda machine, op, operands: _collective(
        machine, op, operands, lambda parts: [parts[0]] * len(parts)
    ),
}

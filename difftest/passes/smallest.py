"""Smaller modules for a pass: a part of the entry, with other instructions as parameters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from difftest.passes.evaluate import Machine
from difftest.passes.guilty import EntryLayout, Verdict
from difftest.passes.hlo import Computation, HloModule, Instruction
from difftest.passes.hlo_text import written
from difftest.passes.module_runs import ModuleRun
from difftest.passes.shardings import arguments_of

OF_SEVERAL = (
    *("partition-id", "replica-id", "all-reduce", "all-gather", "reduce-scatter", "all-to-all"),
    *("collective-permute", "collective-broadcast"),
)
"""Instructions whose value on one device depends on the others, or on which device it is."""

LEAVES = ("parameter", "constant", "iota")
"""Instructions that a parameter would not make smaller."""


@dataclass(frozen=True)
class Candidate:
    """A module on its way to the smallest: its entry, and the values of all instructions on one device.

    `cut` names the instructions that are parameters in it.
    """

    module: HloModule
    root: str
    cut: frozenset[str]
    values: Mapping[str, Any]
    partitions: int

    @cached_property
    def entry(self) -> Computation:
        """The entry, with the chosen root and parameters."""
        kept = tuple(
            replace(instruction, operands=()) if instruction.name in self.cut else instruction
            for instruction in self.module.entry.instructions
        )
        needed = Computation("smallest", kept, self.root).needed
        given = [
            instruction
            for instruction in needed
            if instruction.name in self.cut or instruction.opcode == "parameter"
        ]
        numbers = {instruction.name: number for number, instruction in enumerate(given)}
        instructions = tuple(
            _parameter(instruction, numbers[instruction.name]) if instruction.name in numbers else instruction
            for instruction in needed
        )
        return Computation("smallest", instructions, self.root)

    @cached_property
    def size(self) -> int:
        """How many instructions compute something."""
        return sum(instruction.opcode not in LEAVES for instruction in self.entry.instructions)

    @property
    def call(self) -> ModuleRun:
        """What its parameters hold."""
        given = tuple(np.asarray(self.values[parameter.name]) for parameter in self.entry.parameters)
        return ModuleRun(arguments=given, numbers="the numbers of the whole program")

    def text(self, name: str) -> str:
        """The module as HLO."""
        return written(self.module, self.entry, name, self.partitions)

    def smaller(self) -> Iterator["Candidate"]:
        """Candidates with another root, then those with another parameter, each kind from small to large."""
        inside = [
            instruction
            for instruction in self.entry.instructions
            if instruction.opcode not in LEAVES and instruction.shape.type not in ("tuple", "token")
        ]
        others = [instruction.name for instruction in inside if instruction.name != self.root]
        roots = [replace(self, root=name) for name in others]
        cuts = [replace(self, cut=self.cut | {name}) for name in others]
        for kind in (roots, cuts):
            yield from sorted(
                (each for each in kind if each.size < self.size), key=lambda instruction: instruction.size
            )


def first_candidates(verdict: Verdict) -> tuple[Candidate, ...]:
    """The module before the guilty pass, on the numbers that show it.

    After the partitioner these are the programs of each device, without what it exchanges with others.
    """
    if verdict.before is None or verdict.call is None:
        return ()
    module, layout = verdict.before.module, EntryLayout().at(verdict.before)
    pieces = arguments_of(module, verdict.call.arguments, layout.inputs)
    with np.errstate(all="ignore"):
        values = Machine(module, wide=False).values(module.entry, pieces)
    shared = frozenset(
        instruction.name for instruction in module.entry.instructions if instruction.opcode in OF_SEVERAL
    )
    arguments = zip(module.entry.parameters, verdict.call.arguments, strict=False)
    if not shared and all(parameter.shape.dims == array.shape for parameter, array in arguments):
        return (Candidate(module, module.entry.root, shared, _on(values, 0), module.partitions),)
    by_name, root = module.entry.by_name, module.entry.root
    while root in shared and by_name[root].operands:
        root = by_name[root].operands[0]
    return tuple(
        Candidate(module, root, shared, _on(values, device), 1)
        for device in range(module.partitions * module.replicas)
    )


def _on(values: Mapping[str, Sequence[Any]], device: int) -> dict[str, Any]:
    return {name: each[device] for name, each in values.items()}


def _parameter(instruction: Instruction, number: int) -> Instruction:
    kept = {key: value for key, value in instruction.attributes.items() if key == "sharding"}
    return Instruction(instruction.name, instruction.shape, "parameter", (), kept, str(number))

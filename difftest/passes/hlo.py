"""An HLO module: computations of instructions (`difftest.passes.hlo_text` reads and writes them)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from difftest.ground.errors import UsageError

CALLING = (
    *("to_apply", "calls", "condition", "body", "select", "scatter"),
    *("true_computation", "false_computation"),
)
"""Attributes that name a computation."""


class UnreadableError(UsageError):
    """Text that is no HLO, or HLO that this program cannot read."""


@dataclass(frozen=True, slots=True)
class Shape:
    """An array's `type`, such as f32, its dims, and its layout, the minor dim first; or a tuple of `parts`.

    A token is an array of type `token` without dims.
    """

    type: str
    dims: tuple[int, ...] = ()
    layout: tuple[int, ...] = ()
    parts: tuple["Shape", ...] = ()

    def __str__(self) -> str:
        """As HLO has it, with the layout."""
        if self.type == "tuple":
            return f"({', '.join(map(str, self.parts))})"
        layout = f"{{{','.join(map(str, self.layout))}}}" if self.dims else ""
        return f"{self.type}[{','.join(map(str, self.dims))}]{layout}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction: `operands` are names, or the text in the brackets of a constant or a parameter.

    `attributes` are those after the brackets, by name, as text.
    """

    name: str
    shape: Shape
    opcode: str
    operands: tuple[str, ...]
    attributes: Mapping[str, str]
    text: str = field(default="", compare=False)

    def called(self) -> tuple[str, ...]:
        """The names of the computations that it calls."""
        names = [self.attributes[key] for key in CALLING if key in self.attributes]
        branches = self.attributes.get("branch_computations", "")
        return tuple(name.strip(" %") for name in (*names, *branches.strip("{}").split(",")) if name)

    def numbers(self, attribute: str) -> tuple[int, ...]:
        """An attribute such as `dimensions={0,1}`; empty where there is none."""
        return tuple(int(number) for number in re.findall(r"-?\d+", self.attributes.get(attribute, "")))


@dataclass(frozen=True)
class Computation:
    """Instructions in an order in which operands come first; `root` is the name of the result."""

    name: str
    instructions: tuple[Instruction, ...]
    root: str

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """Its parameters, by number."""
        given = [each for each in self.instructions if each.opcode == "parameter"]
        return tuple(sorted(given, key=lambda each: int(each.text)))

    @cached_property
    def by_name(self) -> Mapping[str, Instruction]:
        """Its instructions by their names."""
        return {instruction.name: instruction for instruction in self.instructions}

    @property
    def result(self) -> Instruction:
        """The instruction whose value it returns."""
        return self.by_name[self.root]

    @cached_property
    def needed(self) -> tuple[Instruction, ...]:
        """The instructions of which the result depends, operands first."""
        order, done, stack = list[Instruction](), set[str](), [self.root]
        while stack:
            missing = [each for each in self.by_name[stack[-1]].operands if each not in done]
            if missing and stack[-1] not in done:
                stack += reversed(missing)
                continue
            if (name := stack.pop()) not in done:
                done.add(name)
                order.append(self.by_name[name])
        return tuple(order)


@dataclass(frozen=True)
class HloModule:
    """A module: its `header`, its computations by name, and the name of the one that runs."""

    header: str
    computations: Mapping[str, Computation]
    entry_name: str

    @property
    def entry(self) -> Computation:
        """The computation that runs."""
        return self.computations[self.entry_name]

    @cached_property
    def partitions(self) -> int:
        """How many devices share each array."""
        return self._count("num_partitions")

    @cached_property
    def replicas(self) -> int:
        """How many copies of the program run."""
        return self._count("replica_count")

    @cached_property
    def on_one_device(self) -> "HloModule":
        """The same computations in a program of one device."""
        return HloModule("HloModule alone", self.computations, self.entry_name)

    def _count(self, word: str) -> int:
        number = re.search(rf"\b{word}=(\d+)", self.header)
        return int(number[1]) if number else 1

    def reachable(self, entry: Computation) -> tuple[Computation, ...]:
        """The computations that `entry` calls, those that others call first, and `entry` itself."""
        order = dict[str, Computation]()

        def visit(computation: Computation) -> None:
            for instruction in computation.instructions:
                for name in instruction.called():
                    visit(self.computations[name])
            order.setdefault(computation.name, computation)

        visit(entry)
        return tuple(order.values())

    def instructions(self) -> Iterator[Instruction]:
        """Those of all computations."""
        for computation in self.computations.values():
            yield from computation.instructions

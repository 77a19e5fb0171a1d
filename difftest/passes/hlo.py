"""HLO as XLA dumps it: text to modules of computations of instructions, and back."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from difftest.ground.errors import UsageError

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s*(?P<root>ROOT )?%?(?P<name>[\w.\-]+) = (?P<rest>.*)$")
_ARRAY = re.compile(r"(?P<type>[a-z]\w*)\[(?P<dims>[^\]]*)\](?:\{(?P<layout>[\d,]*)[^}]*\})?")
_ELEMENT = re.compile(r"(%[\w.\-]+)#(\d+)")
_COMMENT = re.compile(r"/\*.*?\*/")
_ORIGIN = re.compile(r", (?:metadata|backend_config|frontend_attributes)=\{")
TABLES = re.compile(r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d.*\n)*\n", re.MULTILINE)
"""What HLO says above its computations of the places in the program that instructions come from."""

_OPENING, _CLOSING = "([{", ")]}"

_CALLING = (
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
        names = [self.attributes[key] for key in _CALLING if key in self.attributes]
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


_ASIDE = ("metadata", "backend_config", "frontend_attributes", "origin")
"""Attributes that say nothing of what is computed."""


def written(module: HloModule, entry: Computation, name: str, partitions: int) -> str:
    """The text of a module called `name` that runs `entry`, without the origins of its instructions."""
    header = f"HloModule {name}" + (f", num_partitions={partitions}" if partitions > 1 else "")
    parts = [header]
    for computation in module.reachable(entry):
        is_entry = computation.name == entry.name
        needed = computation.needed if is_entry else computation.instructions
        given = [parameter for parameter in computation.parameters if parameter not in needed]
        lines = [
            _line(instruction, is_root=instruction.name == computation.root)
            for instruction in (*given, *needed)
        ]
        body = "\n".join(lines)
        parts.append(
            f"{'ENTRY ' if is_entry else ''}%{computation.name} {_signature(computation)} {{\n{body}\n}}"
        )
    return "\n\n".join(parts) + "\n"


def _signature(computation: Computation) -> str:
    given = ", ".join(f"{parameter.name}: {parameter.shape}" for parameter in computation.parameters)
    return f"({given}) -> {computation.result.shape}"


def _line(instruction: Instruction, *, is_root: bool) -> str:
    inside = (
        instruction.text
        if not instruction.operands
        else ", ".join(f"%{name}" for name in instruction.operands)
    )
    attributes = "".join(
        f", {key}={f'%{value}' if key in _CALLING else value}"
        for key, value in instruction.attributes.items()
        if key not in _ASIDE
    )
    root, value = "ROOT " if is_root else "", f"{instruction.shape} {instruction.opcode}({inside})"
    return f"  {root}%{instruction.name} = {value}{attributes}"


def parse(text: str) -> HloModule:
    """The module of a text; `UnreadableError` naming what cannot be read."""
    header, computations, entry = "", dict[str, Computation](), ""
    name, lines = "", list[str]()
    for raw in text.splitlines():
        line = _COMMENT.sub("", raw).rstrip()
        if line.startswith("HloModule"):
            header = line
        elif not name and (begins := _COMPUTATION.match(line)):
            name, entry = begins["name"], begins["name"] if begins["entry"] else entry
        elif name and line.startswith("}"):
            computations[name] = _computation(name, lines)
            name, lines = "", []
        elif name and line.strip():
            lines.append(line)
    if not (header and entry and entry in computations):
        msg = "it is no HLO module as text: it lacks a line 'HloModule ...' or an 'ENTRY' computation"
        raise UnreadableError(msg)
    return HloModule(header, computations, entry)


def _computation(name: str, lines: list[str]) -> Computation:
    by_name, root = dict[str, Instruction](), ""
    for line in lines:
        begins = _INSTRUCTION.match(line)
        if begins is None:
            msg = f"no HLO instruction: {line.strip()[:100]!r}"
            raise UnreadableError(msg)
        instruction = _instruction(begins["name"], _ELEMENT.sub(r"\1.element\2", begins["rest"]))
        by_name |= {each.name: each for each in (*_elements(instruction, by_name), instruction)}
        root = begins["name"] if begins["root"] else root
    instructions = tuple(by_name.values())
    return Computation(name, instructions, root or instructions[-1].name)


def _elements(instruction: Instruction, before: Mapping[str, Instruction]) -> Iterator[Instruction]:
    """The parts of tuples that an instruction names as `%t#0`, which are not there yet."""
    for name in dict.fromkeys(instruction.operands):
        whole, _, index = name.rpartition(".element")
        if name not in before and whole in before:
            part = before[whole].shape.parts[int(index)]
            yield Instruction(name, part, "get-tuple-element", (whole,), {"index": index}, f"%{whole}")


def _instruction(name: str, rest: str) -> Instruction:
    written, after = _shape_text(rest)
    opcode, bracket, _ = after.partition("(")
    inside = _balanced(after[len(opcode) :])
    attributes = _attributes(after[len(opcode) + len(inside) :])
    if not bracket:
        msg = f"no operands: {rest[:100]!r}"
        raise UnreadableError(msg)
    text = inside[1:-1]
    is_literal = opcode in ("constant", "parameter")
    operands = () if is_literal else tuple(part.split()[-1].lstrip("%") for part in split(text))
    return Instruction(name, shape_of(written), opcode.strip(), operands, attributes, text)


def _attributes(text: str) -> dict[str, str]:
    attributes = dict[str, str]()
    for part in split(text.lstrip(", ")):
        key, sign, value = part.partition("=")
        if sign:
            attributes[key.strip()] = value.strip().lstrip("%")
    return attributes


def _shape_text(rest: str) -> tuple[str, str]:
    """The text of the shape with which `rest` begins, and what follows it."""
    if rest.startswith("("):
        written = _balanced(rest)
        return written, rest[len(written) :].lstrip()
    written, _, after = rest.partition(" ")
    return written, after.lstrip()


def _depths(text: str) -> Iterator[tuple[int, str, int]]:
    """Every letter outside of quotes with its place, and how many brackets are open after it."""
    depth, quoted = 0, False
    for at, letter in enumerate(text):
        if letter == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (letter in _OPENING) - (letter in _CLOSING)
            yield at, letter, depth


def _balanced(text: str) -> str:
    """The beginning of `text` up to the bracket that closes its first one; quotes are passed over."""
    for at, letter, depth in _depths(text):
        if letter in _CLOSING and depth == 0:
            return text[: at + 1]
    msg = f"a bracket is not closed: {text[:100]!r}"
    raise UnreadableError(msg)


def split(text: str) -> tuple[str, ...]:
    """The parts between the commas that are in no bracket and no quotes."""
    commas = [at for at, letter, depth in _depths(text) if letter == "," and depth == 0]
    ends = zip([0, *(at + 1 for at in commas)], [*commas, len(text)], strict=True)
    return tuple(part for start, end in ends if (part := text[start:end].strip()))


def shape_of(text: str) -> Shape:
    """The shape of a text such as `f32[2,3]{1,0}` or `(f32[2]{0}, s32[])`."""
    text = text.strip()
    if text.startswith("("):
        return Shape("tuple", parts=tuple(shape_of(part) for part in split(text[1:-1])))
    array = _ARRAY.match(text)
    if array is None:
        msg = f"no shape: {text[:60]!r}"
        raise UnreadableError(msg)
    if "<" in array["dims"]:
        msg = f"dynamic dims are not supported: {text[:60]!r}"
        raise UnreadableError(msg)
    dims = tuple(int(dim) for dim in array["dims"].split(",") if dim)
    written = tuple(int(dim) for dim in (array["layout"] or "").split(",") if dim)
    layout = written if len(written) == len(dims) else tuple(reversed(range(len(dims))))
    return Shape(array["type"], dims, layout)


def without_origins(text: str) -> str:
    """`text` without what HLO says of the source lines, and of how kernels are tuned."""
    return "\n".join(map(_without_origin, TABLES.sub("", text).split("\n")))


def _without_origin(line: str) -> str:
    while begins := _ORIGIN.search(line):
        braces = _balanced(line[begins.end() - 1 :])
        line = line[: begins.start()] + line[begins.end() - 1 + len(braces) :]
    return line

"""HLO as XLA dumps it: text to modules, and back."""

import re
from collections.abc import Iterator, Mapping

from difftest.passes.hlo import CALLING, Computation, HloModule, Instruction, Shape, UnreadableError

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s*(?P<root>ROOT )?%?(?P<name>[\w.\-]+) = (?P<rest>.*)$")
_ARRAY = re.compile(r"(?P<type>[a-z]\w*)\[(?P<dims>[^\]]*)\](?:\{(?P<layout>[\d,]*)[^}]*\})?")
_ELEMENT = re.compile(r"(%[\w.\-]+)#(\d+)")
_COMMENT = re.compile(r"/\*.*?\*/")
_ORIGIN = re.compile(r", (?:metadata|backend_config|frontend_attributes)=\{")

TABLES = re.compile(r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d.*\n)*\n", re.MULTILINE)
"""What HLO says above its computations of the places in the program that instructions come from."""

_OPENING, _CLOSING = "([{", ")]}"

_ASIDE = ("metadata", "backend_config", "frontend_attributes", "origin")
"""Attributes that say nothing of what is computed."""


def written(module: HloModule, entry: Computation, name: str, partitions: int) -> str:
    """The text of a module called `name` that runs `entry`, without the origins of its instructions."""
    header = f"HloModule {name}" + (f", num_partitions={partitions}" if partitions > 1 else "")
    parts = [header]
    for computation in module.reachable(entry):
        is_entry = computation.name == entry.name
        needed = computation.needed if is_entry else computation.instructions
        unused = [parameter for parameter in computation.parameters if parameter not in needed]
        lines = [
            _line(instruction, is_root=instruction.name == computation.root)
            for instruction in (*unused, *needed)
        ]
        body = "\n".join(lines)
        takes = ", ".join(f"{parameter.name}: {parameter.shape}" for parameter in computation.parameters)
        signature = f"%{computation.name} ({takes}) -> {computation.result.shape}"
        parts.append(f"{'ENTRY ' if is_entry else ''}{signature} {{\n{body}\n}}")
    return "\n\n".join(parts) + "\n"


def _line(instruction: Instruction, *, is_root: bool) -> str:
    inside = (
        instruction.text
        if not instruction.operands
        else ", ".join(f"%{name}" for name in instruction.operands)
    )
    attributes = "".join(
        f", {key}={f'%{value}' if key in CALLING else value}"
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

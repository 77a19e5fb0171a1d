"""Where a signal struck: the native frames of the thread that died, and the names that identify them.

Python's faulthandler knows Python's frames alone, and torch's own handler deadlocks when threads are struck together, as XLA's are. So a
handler of our own (`native.c`) is compiled as a zygote starts, where there is a compiler; without one a crash keeps its Python frames.

The handler prints addresses; libraries export few names, but torch_xla keeps its symbol table, in which they are looked up once the process
is dead. A crash is identified by the innermost function that is the framework's own: thread pools, `std::function` and the interpreter say
nothing, and who called it depends on the thread that a pool chose.
"""

import ctypes
import functools
import mmap
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

SOURCE = Path(__file__).with_name("native.c")
TOLD_CHARACTERS = 200
"""Of a frame in a log; C++ names can fill a page."""

ELF_64_LITTLE = b"\x7fELF\x02\x01"
SYMBOL_TABLE, FUNCTION = 2, 2
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)

_STACK = re.compile(r"^Native frames, innermost first:\n(?P<frames>(?:.*\[0x[0-9a-f]+\]\n)*)", re.MULTILINE)
_FRAME = re.compile(r"^(?P<library>[^(\n]*)\((?P<name>[^+)\n]*)\+0x(?P<offset>[0-9a-f]+)\) ?\[", re.MULTILINE)
_PYTHON = re.compile(
    r'^(?:Current thread|Thread|Stack) .*\n  File "(?P<file>[^"]*)", line \d+ in (?P<name>\S+)', re.MULTILINE
)
_HANDLER_FRAMES = 2
"""The handler's own, and the kernel's way into it."""

_CALLED = re.compile(r"^std::_Function_handler<(?P<arguments>.*)>::_M_invoke\(")
_LAMBDA = re.compile(r"(?:::)?\{lambda\([^{}]*\)(?:#\d+)?\}")
_DECORATION = re.compile(r"\[[^\]]*\]|::_FUN\b|\s*\bconst\b")
_PLUMBING = re.compile(r"(std|absl|Eigen|tsl|torch::lazy::MultiWait)::|$")
_INTERPRETER = re.compile(r"python|libpython|_ctypes|libffi|libc[.-]|libpthread|ld-")


@dataclass(frozen=True, slots=True)
class Frame:
    """One return address: the mangled name where the library exports it, and how far behind that (else: into the library) it lies."""

    name: str
    offset: int
    library: str

    def function(self) -> str:
        """The demangled name, parameters and all; empty where it has none."""
        return _demangled(
            self.name or _name_at(self.library, self.offset - 1)
        )  # a return address may lie behind its function


@functools.cache
def compiled() -> ctypes.CDLL | None:
    """The handler, not yet installed: made once in a zygote, for all that it forks. None where no C compiler takes the source."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory(prefix="difftest-") as folder:
        library = Path(folder, "native.so")
        command = (compiler, "-shared", "-fPIC", "-O1", "-pthread", "-o", library, SOURCE)
        done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  our own source under the system's compiler
        return None if done.returncode else ctypes.CDLL(str(library))


def where(log: str) -> str:
    """The innermost function of the framework's own in the thread that died; without one, its Python frame, or nothing."""
    own = (
        plain(frame.function()) for frame in _frames(log) if not _INTERPRETER.match(Path(frame.library).name)
    )
    return next((name for name in own if not _PLUMBING.match(name)), called(log))


def called(log: str) -> str:
    """The innermost Python frame that faulthandler left in `log`, as `file:function`; empty where it left none."""
    python = _PYTHON.search(log)
    return f"{Path(python['file']).name}:{python['name']}" if python else ""


def readable(log: str, characters: int) -> str:
    """The last `characters` of `log`, with functions for addresses. These come first where the frames of many threads follow them."""
    told = (
        frame.function()[:TOLD_CHARACTERS] or f"? in {Path(frame.library).name}" for frame in _frames(log)
    )
    stack = "Native frames, innermost first:\n" + "".join(f"  {line}\n" for line in told)
    whole = _STACK.sub(lambda _: stack, log, count=1)
    end = whole[-characters:]
    if whole == log or stack in end:
        return end
    first = stack[: characters // 2]
    return first + end[len(first) :]


def plain(name: str) -> str:
    """A demangled name without parameters, template arguments and lambdas; a `std::function`'s is that of what it calls."""
    while (shorter := _LAMBDA.sub("", name)) != name:
        name = shorter
    if called := _CALLED.match(name):
        name = _outside(called["arguments"], "(<{", ")>}", until=",")[1].strip()
    name = name.replace("(anonymous namespace)", "anonymous")
    return (
        _DECORATION.sub("", _outside(name, "(<", ")>")[0])
        .strip()
        .rpartition(" ")[2]
        .removesuffix("::operator")
    )


def _outside(text: str, opening: str, closing: str, until: str = "") -> tuple[str, str]:
    """What of `text` is in no brackets; and what follows the last `until` that is in none."""
    kept, rest, depth = "", "", 0
    for index, sign in enumerate(text):
        depth -= sign in closing
        kept += "" if depth or sign in opening + closing else sign
        if not depth and sign == until:
            rest = text[index + 1 :]
        depth += sign in opening
    return kept, rest


def _frames(log: str) -> Iterator[Frame]:
    """The frames from where the signal struck."""
    stack = _STACK.search(log)
    frames = (
        [Frame(f["name"], int(f["offset"], 16), f["library"]) for f in _FRAME.finditer(stack["frames"])]
        if stack
        else []
    )
    yield from frames[_HANDLER_FRAMES:]


class _Section(NamedTuple):
    """A section header of an ELF file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int


def _name_at(library: str, offset: int) -> str:
    """The mangled name of the function at `offset` in a library; empty where it was stripped, or cannot be read."""
    try:
        with Path(library).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as elf:
            return _name_in(elf, offset) if elf[:6] == ELF_64_LITTLE else ""
    except (OSError, ValueError):  # gone, or empty
        return ""


def _name_in(elf: mmap.mmap, offset: int) -> str:
    (start,), (size, count) = struct.unpack_from("<Q", elf, 40), struct.unpack_from("<HH", elf, 58)
    sections = [
        _Section(*struct.unpack_from("<IIQQQQII", elf, start + index * size)) for index in range(count)
    ]
    for table in sections:
        if table.kind == SYMBOL_TABLE:
            symbols = np.frombuffer(elf[table.offset : table.offset + table.size], SYMBOL)
            inside = (symbols["value"] <= offset) & (offset < symbols["value"] + symbols["size"])
            found = symbols[inside & (symbols["info"] & 0xF == FUNCTION)]
            if len(found):
                name = sections[table.link].offset + int(found["name"][0])
                return elf[name : elf.find(b"\0", name)].decode(errors="replace")
    return ""


def _demangled(name: str) -> str:
    """What `c++filt` would print; the name as it is where it is not C++'s, or there is no C++ library to ask."""
    try:
        demangle = getattr(ctypes.CDLL("libstdc++.so.6"), "__cxa_demangle")
    except OSError:
        return name
    demangle.restype = ctypes.c_void_p
    text = demangle(name.encode(), None, None, None)
    return (
        ctypes.string_at(text).decode(errors="replace") if text else name
    )  # a few bytes stay behind, once a crash

"""Where a process crashed: the native frames of the thread that died, and the function to identify it by.

Python's faulthandler records only Python's frames, and torch's own handler deadlocks when several threads
crash together, as XLA's do. So a handler of our own (`native_frames.c`) is compiled when a zygote starts,
where there is a compiler. Without it, a crash still has its Python frames.

The handler prints addresses. Libraries export few names, but torch_xla keeps its symbol table, in which the
addresses are looked up once the process is dead (`workers.isolate.symbols`). A crash is identified by the
innermost function of the framework itself: thread pools, `std::function` and the interpreter say nothing
about it, and the callers depend on the thread that a pool chose.
"""

import ctypes
import functools
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from difftest.ground.own_folder import own_folder
from workers.isolate import symbols

SOURCE = Path(__file__).with_name("native_frames.c")
FRAME_CHARACTERS = 200
"""How much of a frame a log shows; C++ names can fill a page."""

_STACK = re.compile(r"^Native frames, innermost first:\n(?P<frames>(?:.*\[0x[0-9a-f]+\]\n)*)", re.MULTILINE)
_FRAME = re.compile(r"^(?P<library>[^(\n]*)\((?P<name>[^+)\n]*)\+0x(?P<offset>[0-9a-f]+)\) ?\[", re.MULTILINE)
_PYTHON = re.compile(
    r'^(?:Current thread|Thread|Stack) .*\n  File "(?P<file>[^"]*)", line \d+ in (?P<name>\S+)', re.MULTILINE
)
_HANDLER_FRAMES = 2
"""The innermost frames to leave out: the handler's own, and the kernel's call of it."""

_CALLED = re.compile(r"^std::_Function_handler<(?P<arguments>.*)>::_M_invoke\(")
_LAMBDA = re.compile(r"(?:::)?\{lambda\([^{}]*\)(?:#\d+)?\}")
_DECORATION = re.compile(r"\[[^\]]*\]|::_FUN\b|\s*\bconst\b")
_PLUMBING = re.compile(r"(std|absl|Eigen|tsl|torch::lazy::MultiWait)::|$")
_INTERPRETER = re.compile(r"python|libpython|_ctypes|libffi|libc[.-]|libpthread|ld-")


@dataclass(frozen=True, slots=True)
class Frame:
    """One return address.

    `name` is the mangled name where the library exports it, else empty; `offset` is in bytes from that
    function, or else from the start of the library.
    """

    name: str
    offset: int
    library: str

    def function(self) -> str:
        """The demangled name with its parameters; empty where the function has none."""
        inside = self.offset - 1  # a return address may lie just after its function
        return symbols.demangled(self.name or symbols.name_at(self.library, inside))


@functools.cache
def compiled() -> ctypes.CDLL | None:
    """The handler, compiled once in a zygote for all that it forks; its `watch()` installs it.

    None where there is no C compiler or it rejects the source.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with own_folder("run") as folder:
        library = folder / "native_frames.so"
        command = (compiler, "-shared", "-fPIC", "-O1", "-pthread", "-o", library, SOURCE)
        compilation = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  our own source
        return None if compilation.returncode else ctypes.CDLL(str(library))


def crashed_in(log: str) -> str:
    """The innermost function of the framework itself in the thread that died.

    Where there is none, the thread's innermost Python frame; empty without that too.
    """
    own = (
        plain(frame.function()) for frame in _frames(log) if not _INTERPRETER.match(Path(frame.library).name)
    )
    return next((name for name in own if not _PLUMBING.match(name)), python_frame(log))


def python_frame(log: str) -> str:
    """The innermost Python frame that faulthandler left in `log`, as `file:function`; empty without one."""
    python = _PYTHON.search(log)
    return f"{Path(python['file']).name}:{python['name']}" if python else ""


def readable(log: str, characters: int) -> str:
    """The last `characters` of `log`, with the names of functions in place of addresses.

    Where the frames of many threads follow the native frames, so that these would be cut off, they come
    first.
    """
    names = (
        frame.function()[:FRAME_CHARACTERS] or f"? in {Path(frame.library).name}" for frame in _frames(log)
    )
    stack = "Native frames, innermost first:\n" + "".join(f"  {name}\n" for name in names)
    whole = _STACK.sub(lambda _: stack, log, count=1)
    end = whole[-characters:]
    if whole == log or stack in end:
        return end
    first = stack[: characters // 2]
    return first + end[len(first) :]


def plain(name: str) -> str:
    """A demangled name without parameters, template arguments and lambdas.

    The name of a `std::function` is that of the function it calls.
    """
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
    """The part of `text` outside all brackets, and the rest after the last `until` outside all brackets."""
    kept, rest, depth = "", "", 0
    for index, sign in enumerate(text):
        depth -= sign in closing
        kept += "" if depth or sign in opening + closing else sign
        if not depth and sign == until:
            rest = text[index + 1 :]
        depth += sign in opening
    return kept, rest


def _frames(log: str) -> Iterator[Frame]:
    """The native frames in `log`, from the one that received the signal outwards."""
    stack = _STACK.search(log)
    frames = (
        [Frame(f["name"], int(f["offset"], 16), f["library"]) for f in _FRAME.finditer(stack["frames"])]
        if stack
        else []
    )
    yield from frames[_HANDLER_FRAMES:]

"""Running a reproducer: in a fresh process, a folder and an environment of its own, with a time limit.

The same script, run once more under `DRIVER`, leaves XLA's input and what XLA compiled it to.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from difftest.ground.errors import NoTimeError
from difftest.ground.inherited import by_scripts
from difftest.ground.own_folder import own_folder
from difftest.jobs.campaign.interruption import require_uninterrupted
from difftest.records.script_ending import HANG_AFTER_SECONDS, ScriptEnding

SECONDS = 300.0
"""How long a script may take, imports and the wait for a hang included."""

POLL_SECONDS = 0.2
"""How often a script that runs is looked at: a command that is interrupted ends it."""

_END = ContextVar("_END", default=float("inf"))

MOST_OUTPUT = 20_000
"""Characters kept of what a script prints, its last ones."""

REPRODUCED, NOT_REPRODUCED = "BUG REPRODUCED", "not reproduced"
"""The lines by which a reproducer says whether the fault is there; other scripts say it by their status."""

TRACEBACK = "Traceback (most recent call last)"
_NO_PYTHON = re.compile(r"^(?:Syntax|Indentation|Tab)Error: ", re.MULTILINE)
"""How a script ends that this Python cannot read, without a traceback."""

DRIVER = """
import runpy, sys
from pathlib import Path
import torch_xla
import torch_xla.core.xla_model as xm

folder, script = Path(sys.argv[1]), sys.argv[2]
sync, graphs = torch_xla.sync, iter(range(4))

def saved(*arguments, **options):
    if (number := next(graphs, None)) is not None:
        (folder / f"graph{number}.stablehlo.txt").write_text(xm.get_stablehlo())
    sync(*arguments, **options)

torch_xla.sync = saved
sys.argv = [script]
runpy.run_path(script, run_name="__main__")
"""
"""Runs a script on XLA and saves the StableHLO of the first four graphs, each before it is compiled.

It has to be before: the crash that the script shows may be the compiler's.
"""

GRAPHS = (
    "*.stablehlo.txt",
    "*before_optimizations.txt",
    "*after_optimizations.txt",
    "*buffer-assignment.txt",
)
"""The files to keep: StableHLO, HLO before and after optimization, and buffer assignment."""

HLO_FLAGS = "--xla_dump_hlo_as_text --xla_dump_hlo_module_re=jit_.*"
"""XLA writes what JAX compiles, as text; JAX gives it such names."""

_ORIGIN = re.compile(r", metadata=\{[^{}]*\}")
"""What HLO says of the place in the script that an instruction comes from."""

MOST_FILES, MOST_BYTES = 16, 1_000_000
"""The most files to keep, and the most bytes of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRun:
    """A script that was run, and its output.

    The output is standard output, followed by standard error where the status was not 0. `shown`: the fault
    is there, as the script says by the line `REPRODUCED`, by the exception, crash or hang that its docstring
    or its file names, or by the status 0 where it has none of these. `absent`: the fault is not there, as it
    says by the line `NOT_REPRODUCED`, by ending with status 1 by itself or, where it should fail, with status
    0. Neither holds when Python ended it because of another exception, or when it ended in any other way:
    that is inconclusive.
    """

    text: str
    shown: bool
    output: str
    absent: bool = False


@contextmanager
def ending_at(end: float) -> Iterator[None]:
    """Cuts every script that still runs at the time `end` (monotonic), by a `NoTimeError`."""
    token = _END.set(end)
    try:
        yield
    finally:
        _END.reset(token)


def run_script(
    text: str,
    seconds: float = SECONDS,
    python: str = sys.executable,
    raises: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> ScriptRun:
    """Runs a script with the interpreter `python`; one that does not end within `seconds` is inconclusive.

    It has `variables` beside those that every script inherits. With `raises`, the fault is there where the
    script ends by an exception or a crash and says one of these texts, and it is not there where the script
    ends with status 0.
    """
    ending = ScriptEnding.of(text)
    if ending and ending.hangs:
        seconds = min(seconds, HANG_AFTER_SECONDS)
    with own_folder("reproducer") as folder:
        file = folder / "reproducer.py"
        file.write_text(text)
        status, out, log = execute([python, str(file)], folder, variables or {}, seconds)
    if status is None:
        shown = ending is not None and ending.hangs
        return ScriptRun(text=text, shown=shown, output=f"not finished after {seconds:g} s\n")
    return concluded(text, status, out, log, raises)


def concluded(text: str, status: int, out: str, log: str, raises: Sequence[str] = ()) -> ScriptRun:
    """What a script that ended with `status` says of its fault; `out` and `log` are what it printed."""
    ending = ScriptEnding.of(text)
    output = out if status == 0 else out + log
    lines = set(out.splitlines())
    if ending:
        shown, absent = ending.matches(status, log), status == 0
    elif raises:
        shown, absent = status != 0 and any(text in log for text in raises), status == 0
    elif lines & {REPRODUCED, NOT_REPRODUCED}:
        shown, absent = REPRODUCED in lines, REPRODUCED not in lines
    else:
        shown, absent = status == 0, status == 1 and not (TRACEBACK in log or _NO_PYTHON.search(log))
    return ScriptRun(text=text, shown=shown, output=output[-MOST_OUTPUT:], absent=absent)


def keep_graphs(text: str, folder: Path, python: str = sys.executable) -> tuple[str, ...]:
    """Runs a script on XLA once more with `python`, and replaces the contents of `folder` by its graphs.

    Returns the names of their files. How the script ends does not matter. Files over `MOST_BYTES`, and those
    after the first `MOST_FILES`, are left out.
    """
    with own_folder("graphs") as made:
        dump, file = made / "graphs", made / "reproducer.py"
        dump.mkdir()
        file.write_text(text)
        flags = {"XLA_FLAGS": f"--xla_dump_to={dump} --xla_dump_hlo_as_text"}
        execute([python, "-c", DRIVER, str(dump), str(file)], made, flags, SECONDS)
        dumped = [graph for pattern in GRAPHS for graph in sorted(dump.glob(pattern))]
        kept = [graph for graph in dumped if graph.stat().st_size <= MOST_BYTES][:MOST_FILES]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)  # fails for a link, which rmtree leaves in place
        return tuple(Path(shutil.copy(graph, folder)).name for graph in kept)


def compiled_hlo(text: str, python: str = sys.executable) -> str:
    """The HLO, before optimization, of what a script on JAX compiles last; empty where it compiles nothing.

    The script may end in any way. Flags of XLA that it sets must follow those of the variable `XLA_FLAGS`.
    """
    from difftest.passes.hlo_text import TABLES

    with own_folder("graphs") as folder:
        file = folder / "reproducer.py"
        file.write_text(text)
        flags = {"XLA_FLAGS": f"--xla_dump_to={folder} {HLO_FLAGS}"}
        execute([python, str(file)], folder, flags, SECONDS)
        graphs = sorted(folder.glob("*.before_optimizations.txt"))
        text = _ORIGIN.sub("", TABLES.sub("", graphs[-1].read_text())) if graphs else ""
        return re.sub(r"\n{3,}", "\n\n", text)


def execute(
    command: list[str], folder: Path, more: Mapping[str, str], seconds: float
) -> tuple[int | None, str, str]:
    """Exit status, standard output and standard error; the status is None when the time ran out.

    All processes of the command's process group are killed at the end.
    """
    environment = by_scripts() | dict(more)
    with (folder / "out").open("wb") as out, (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            command, cwd=folder, env=environment, start_new_session=True, stdout=out, stderr=log
        )
        try:
            status = _wait(process, seconds)
        finally:
            _kill(process)
    printed, logged = (without_gloo((folder / name).read_text(errors="replace")) for name in ("out", "log"))
    return status, printed, logged


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    """The exit status; None when the script's own time ran out."""
    end = time.monotonic() + seconds
    while process.poll() is None:
        require_uninterrupted()
        if time.monotonic() > _END.get():
            msg = "the script was cut at the budget's end"
            raise NoTimeError(msg)
        if time.monotonic() > end:
            return None
        time.sleep(POLL_SECONDS)
    return process.returncode


def without_gloo(text: str) -> str:
    """`text` without gloo's lines about connections, whose order changes from run to run."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("[Gloo]"))


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kills a script and all processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()

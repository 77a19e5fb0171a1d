"""Running a reproducer: in a fresh process, a folder and an environment of its own, with a time limit.

The same script, run once more under `DRIVER`, leaves behind what XLA was given and what it made of it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SECONDS = 300.0
"""How long a script may take, imports and the wait for a hang included."""

MOST_SAID = 20_000
TRACEBACK = "Traceback (most recent call last)"
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TMPDIR")
"""All that a script finds of this process's environment: what else it needs it sets itself."""

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
sys.argv = [script, "run"]
runpy.run_path(script, run_name="__main__")
"""
"""Runs a script on XLA and saves the StableHLO of the first graphs, each before it is compiled: a crash may be the compiler's."""

GRAPHS = (
    "*.stablehlo.txt",
    "*before_optimizations.txt",
    "*after_optimizations.txt",
    "*buffer-assignment.txt",
)
"""What is kept: StableHLO, HLO before and after optimization, and buffer assignment."""

MOST_FILES, MOST_BYTES = 16, 1_000_000
"""At most so many files of at most so many bytes each are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A script that was run: whether it ended with status 0, and what it printed, its standard error too where it did not.

    `absent`: it ended with status 1 of its own accord. One that Python ended because of an exception has told nothing.
    """

    text: str
    shown: bool
    said: str
    absent: bool = False


def run_script(text: str, seconds: float = SECONDS, python: str = sys.executable) -> Tried:
    """Runs a script in a Python; one that does not end in time shows nothing."""
    with tempfile.TemporaryDirectory(prefix="difftest-reproducer-") as folder:
        file = Path(folder) / "reproducer.py"
        file.write_text(text)
        status, out, log = _execute([python, str(file)], Path(folder), {}, seconds)
    if status is None:
        return Tried(text=text, shown=False, said=f"not finished after {seconds:g} s\n")
    said = out if status == 0 else out + log
    return Tried(
        text=text, shown=status == 0, said=said[-MOST_SAID:], absent=status == 1 and TRACEBACK not in log
    )


def keep_graphs(text: str, folder: Path, seconds: float = SECONDS) -> tuple[str, ...]:
    """Runs a script on XLA once more and keeps its graphs in `folder`, in place of older ones; the files' names.

    How it ends does not matter. Files that are too large, or beyond the greatest number, are left out.
    """
    with tempfile.TemporaryDirectory(prefix="difftest-graphs-") as made:
        dump, file = Path(made) / "graphs", Path(made) / "reproducer.py"
        dump.mkdir()
        file.write_text(text)
        flags = {"XLA_FLAGS": f"--xla_dump_to={dump} --xla_dump_hlo_as_text"}
        _execute([sys.executable, "-c", DRIVER, str(dump), str(file)], Path(made), flags, seconds)
        found = [one for pattern in GRAPHS for one in sorted(dump.glob(pattern))]
        kept = [one for one in found if one.stat().st_size <= MOST_BYTES][:MOST_FILES]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return tuple(Path(shutil.copy(one, folder)).name for one in kept)


def _execute(
    command: list[str], folder: Path, more: Mapping[str, str], seconds: float
) -> tuple[int | None, str, str]:
    """Exit status, standard output and standard error; no status when the time ran out. Its process group dies with it."""
    environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | dict(more)
    with (folder / "out").open("wb") as out, (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            command, cwd=folder, env=environment, start_new_session=True, stdout=out, stderr=log
        )
        try:
            status: int | None = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _kill(process)
    said, logged = (_without_gloo((folder / name).read_text(errors="replace")) for name in ("out", "log"))
    return status, said, logged


def _without_gloo(text: str) -> str:
    """What was printed without gloo's lines about who is connected, which come in any order."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("[Gloo]"))


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Ends a script with all processes it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()

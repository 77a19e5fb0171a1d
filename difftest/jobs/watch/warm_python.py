"""Runs scripts in forks of a Python that has imported their slow modules, each with a process of its own.

`python warm_python.py torch torch_xla` is that Python, which need not have difftest: it reads one JSON object
a line, the script, the file for its output and the seconds that it may take, and answers each with the exit
status.
"""

import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn


class EndedError(Exception):
    """The Python has ended, as where it cannot import a module."""


class WarmPython:
    """The process that has imported the modules, from outside."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        """`folder` is for the output of the scripts."""
        self._process, self._folder = process, folder

    def run(self, script: Path, seconds: int) -> tuple[int, str]:
        """The exit status, negative for a signal, and all that the script printed.

        SIGALRM ends a script that takes longer than `seconds`. `EndedError` where the process has ended.
        """
        output = self._folder / f"{script.stem}.out"
        assert self._process.stdin is not None  # noqa: S101  a pipe
        assert self._process.stdout is not None  # noqa: S101  a pipe
        output.unlink(missing_ok=True)
        request = {"script": str(script), "output": str(output), "seconds": seconds}
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise EndedError from error
        if not (answer := self._process.stdout.readline()):
            raise EndedError
        return int(answer), output.read_text(errors="replace")


@contextlib.contextmanager
def warm_python(
    modules: Sequence[str],
    folder: Path,
    python: str = sys.executable,
    variables: Mapping[str, str] = os.environ,
) -> Iterator[WarmPython]:
    """A Python, `python`, that has imported `modules`, until the context ends."""
    words, environment = (python, __file__, *modules), {**variables, "JAX_PLATFORMS": "cpu"}
    pipe = subprocess.PIPE
    with subprocess.Popen(  # noqa: S603  this file
        words, stdin=pipe, stdout=pipe, text=True, env=environment
    ) as process:
        yield WarmPython(process, folder)


def main(modules: Sequence[str]) -> None:
    """Imports the modules, then runs each script that standard input names."""
    answers = os.dup(1)
    os.dup2(2, 1)  # nothing that a library prints may look like an answer
    gc.disable()  # what imports make stays: looking for garbage in it takes a tenth of their time
    for name in modules:
        importlib.import_module(name)
    gc.freeze()  # nor is it looked for there as a script runs, or as this process ends, which takes 2 s
    gc.enable()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            os.close(answers)
            _become(request["script"], request["output"], request["seconds"])
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what the script started and left behind
        os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _become(script: str, output: str, seconds: int) -> NoReturn:
    """Runs a script as `python script` does, and ends with its exit status."""
    os.setsid()
    for descriptor, path in ((0, os.devnull), (1, output), (2, output)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    _remake_autograd()
    _fork_for_spawn()
    signal.alarm(seconds)
    sys.argv, sys.path[0], status = [script], str(Path(script).parent), 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            sys.stderr.write(error.code + "\n")
    except BaseException:  # noqa: BLE001  as Python does at the end of a script
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _remake_autograd() -> None:
    """Lets the forked process make torch's autograd engine anew, while there is one thread.

    Else the first `backward` does, without a lock. Where that is in two threads, one process in 300 crashed,
    failed an assertion of the engine or waited without end (torch 2.9; `workers/child.py` does the same).
    """
    if torch := sys.modules.get("torch"):
        torch.autograd._is_checkpoint_valid()  # noqa: SLF001  asks the engine, and starts no thread of it


def _fork_for_spawn() -> None:
    """Lets `multiprocessing.spawn` fork this process: a new Python takes 5 s of CPU time to import torch."""
    contexts: dict[str, Any] = multiprocessing.context._concrete_contexts  # type: ignore[attr-defined]  # noqa: SLF001
    contexts["spawn"] = contexts["fork"]


if __name__ == "__main__":
    main(sys.argv[1:])

"""Processes of this user: found by a word in their arguments, with all that they started, and ended."""

import contextlib
import os
from collections.abc import Iterable
from typing import TypeAlias

import psutil

Process: TypeAlias = psutil.Process

KILLED_SECONDS = 3.0
"""How long a process that was killed may take to disappear."""


def with_argument(word: str, *, own: bool) -> list[Process]:
    """The processes of this user with `word` in their arguments, and all that these started.

    Where `own`, only the children of this process are looked at.
    """
    matching = list[Process]()
    for process in Process().children() if own else psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().real == os.getuid() and any(word in argument for argument in process.cmdline()):
                matching += [*process.children(recursive=True), process]
    return matching


def end(processes: Iterable[Process], patience: float) -> None:
    """Kills the processes that do not end by themselves within `patience` seconds."""
    _, alive = psutil.wait_procs(processes, timeout=patience)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=KILLED_SECONDS)

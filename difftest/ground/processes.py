"""Processes of this user: found by an environment variable, and ended."""

import contextlib
import os
from collections.abc import Iterable
from typing import TypeAlias

import psutil

Process: TypeAlias = psutil.Process

KILLED_SECONDS = 3.0
"""How long a process that was killed may take to disappear."""


def with_variable(name: str, value: str) -> list[Process]:
    """The processes of this user, without this one, that were started with this environment variable.

    Those that a process started have its variables, and keep them when it ends.
    """
    matching = list[Process]()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.uids().real == os.getuid():
                matching += [process] * (process.environ().get(name) == value)
    return matching


def children_without(word: str) -> list[Process]:
    """The processes that this one has started, without those that have `word` in their arguments."""
    others = list[Process]()
    for child in Process().children():
        with contextlib.suppress(psutil.Error):
            others += [child] * all(word not in argument for argument in child.cmdline())
    return others


def has_child(name: str) -> bool:
    """Whether this process has a child with this name that has not ended."""
    for child in Process().children():
        with contextlib.suppress(psutil.Error):
            if child.name() == name and child.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def end(processes: Iterable[Process], patience: float) -> None:
    """Kills the processes that do not end by themselves within `patience` seconds."""
    _, alive = psutil.wait_procs(processes, timeout=patience)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=KILLED_SECONDS)

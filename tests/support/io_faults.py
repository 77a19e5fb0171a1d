"""A program: a campaign whose k-th operation on files fails, or whose process dies there, for every k.

    python tests/support/io_faults.py FOLDER FAULT [FIRST]

The campaign runs in a forked process, and then again in this one without the fault. One line of JSON for each
k from FIRST on says how the first ended, what it left and whether the tables are those of an undisturbed
campaign.
"""

import contextlib
import errno
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machines import run_to_the_end, timeless_tables

from difftest.ground.errors import InfrastructureError, UsageError

OPERATIONS = ("open", "fsync", "replace", "rename", "mkdir", "unlink", "link", "ftruncate", "truncate")
OF_DESCRIPTORS = ("fsync", "ftruncate")

DIES_BEFORE, DIES_AFTER = "dies-before", "dies-after"
ERRORS = ("ENOSPC", "EIO", "EDQUOT", "EROFS", "EMFILE")
FAULTS = (*ERRORS, DIES_BEFORE, DIES_AFTER)

DIED, WENT_ON, REFUSED, NOT_REACHED, ELSE = 77, 6, 3, 5, 9
"""How the forked process ends: it died; it went on to its end; by an error of ours; before the k-th
operation; or in any other way, which is a fault.
"""


@dataclass
class Fault:
    """Strikes at operation number `at` on files below `root`."""

    root: Path
    name: str
    at: int
    count: int = 0

    def put_into(self, operation: str) -> None:
        """Replaces a function of `os` in this process."""
        setattr(os, operation, self._struck(operation, getattr(os, operation)))

    def _struck(self, operation: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401  as the function that it replaces
            path = str(arguments[0]) if arguments and not isinstance(arguments[0], int) else ""
            if operation in OF_DESCRIPTORS or str(self.root) in path:
                self.count += 1
                if self.count == self.at:
                    self._strike(lambda: real(*arguments, **options))
            return real(*arguments, **options)

        return call

    def _strike(self, operate: Callable[[], object]) -> None:
        if self.name == DIES_AFTER:
            with contextlib.suppress(OSError):  # a folder may be there already
                operate()
        if self.name in {DIES_BEFORE, DIES_AFTER}:
            os._exit(DIED)
        raise OSError(number := getattr(errno, self.name), os.strerror(number))


def ending(fault: Fault) -> int:
    """How a forked process ends that runs the campaign with this fault."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = ELSE
    with contextlib.suppress(BaseException):
        for operation in OPERATIONS:
            fault.put_into(operation)
        try:
            run_to_the_end(fault.root)
            status = WENT_ON if fault.count >= fault.at else NOT_REACHED
        except (InfrastructureError, UsageError):
            status = REFUSED
    os._exit(status)


def left_over(root: Path) -> list[str]:
    """The files that only a campaign in progress has."""
    hidden = (file.name for file in root.rglob(".*") if file.is_file())
    return sorted(name for name in hidden if not name.endswith(".lock") and "index" not in name)


def sweep(folder: Path, name: str, first: int = 1) -> None:
    """Prints a line for every k from `first` on."""
    whole = folder / "whole"
    run_to_the_end(whole)
    wanted = timeless_tables(whole)
    for at in itertools.count(first):
        root = folder / f"{at}"
        status = ending(Fault(root, name, at))
        if status == NOT_REACHED:
            return
        run_to_the_end(root)
        line = {"at": at, "status": status, "equal": timeless_tables(root) == wanted, "left": left_over(root)}
        print(json.dumps(line), flush=True)  # noqa: T201  the program's answer
        shutil.rmtree(root)


if __name__ == "__main__":
    sweep(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))

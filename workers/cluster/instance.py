"""An own instance of Ray on this machine: its folder and its processes, of which nothing stays behind."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from difftest import processes
from difftest.own_folder import abandoned, own_folder, remove
from workers.isolate import environment_variables

LONGEST_PARENT = 19
"""How long the name of the temporary folder may be.

The name of a socket has at most 107 bytes, of which Ray's session and our folder take 88.
"""

SHORT_PARENT = Path("/tmp")  # noqa: S108  with a private folder in it
"""The parent where the temporary folder's name is too long."""

END_SECONDS = 3.0
"""How long the processes of an instance that was stopped may take to end by themselves."""


@contextmanager
def folder() -> Iterator[Path]:
    """The folder for a new instance, whose processes have their temporary files there too."""
    with own_folder("ray", _parent()) as made:
        temporary = made / "tmp"
        temporary.mkdir()
        with environment_variables.set_to({"TMPDIR": str(temporary)}):
            yield made


def running(folder: Path) -> list[processes.Process]:
    """The processes of the instance in this folder, which this process has started."""
    return processes.with_argument(folder.name, own=True)


def remove_what_is_left() -> None:
    """Removes the folders of ended processes of this user, and ends what an instance in them still runs."""
    for parent in {Path(tempfile.gettempdir()), _parent()}:
        for left in abandoned(parent):
            if left.name.startswith("difftest-ray_"):
                processes.end(processes.with_argument(left.name, own=False), patience=0.0)
            remove(left)


def _parent() -> Path:
    usual = Path(tempfile.gettempdir())
    return usual if len(os.fsencode(usual)) <= LONGEST_PARENT else SHORT_PARENT

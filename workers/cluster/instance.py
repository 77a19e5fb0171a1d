"""An own instance of Ray on this machine: its folder and its processes, of which nothing stays behind."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from difftest.ground import processes
from difftest.ground.own_folder import abandoned, own_folder, remove, short_parent
from workers.isolate import environment_variables

LONGEST_PARENT = 19
"""How long the name of the temporary folder may be.

The name of a socket has at most 107 bytes, of which Ray's session and our folder take 88.
"""

VARIABLE = "TMPDIR"
"""The environment variable with the temporary folder of a process."""

END_SECONDS = 3.0
"""How long the processes of an instance that was stopped may take to end by themselves."""


ROUNDS = 3
"""How often the processes of an instance are looked for: one that is killed may have started another."""


@contextmanager
def folder() -> Iterator[Path]:
    """The folder for a new instance, whose processes have their temporary files there too."""
    with own_folder("ray", _parent()) as made:
        temporary = _temporary(made)
        temporary.mkdir()
        with environment_variables.set_to({VARIABLE: str(temporary)}):
            yield made


def end(folder: Path, patience: float) -> None:
    """Ends the processes of the instance in this folder; kills those that outlive `patience` seconds.

    They are recognised by their temporary folder. The parent of one may have ended before it, as a worker's
    does when the raylet is killed.
    """
    for _ in range(ROUNDS):
        inside = processes.with_variable(VARIABLE, str(_temporary(folder)))
        others = processes.children_without(folder.name)
        if not (left := [process for process in inside if process not in others]):
            return
        processes.end(left, patience)


def remove_what_is_left() -> None:
    """Removes the folders of ended processes of this user, and ends what an instance in them still runs."""
    for parent in {Path(tempfile.gettempdir()), _parent()}:
        for left in abandoned(parent):
            if left.name.startswith("difftest-ray_"):
                end(left, patience=0.0)
            remove(left)


def _temporary(folder: Path) -> Path:
    return folder / "tmp"


def _parent() -> Path:
    return short_parent(LONGEST_PARENT)

"""The Python environments that `difftest environments make` has made for this user, by name.

Each is a folder below `environments` in the user's state, or below the folder that `DIFFTEST_MADE` names.
"""

import os
from pathlib import Path

from difftest.ground.state_folder import state_folder

VARIABLE = "DIFFTEST_MADE"

COMPLETE = "made"
"""The file that marks an environment as complete; it holds what was installed, one requirement per line."""


def home() -> Path:
    """The folder of the environments, which need not exist."""
    named = os.environ.get(VARIABLE)
    return Path(named).resolve() if named else state_folder("environments")


def names() -> tuple[str, ...]:
    """The names of the environments that are complete, sorted."""
    return tuple(sorted(file.parent.name for file in home().glob(f"*/{COMPLETE}")))


def python(name: str) -> Path | None:
    """The Python of an environment; None where there is no complete one of that name."""
    folder = home() / name
    return folder / "bin" / "python" if (folder / COMPLETE).is_file() else None


def requirements(folder: Path) -> tuple[str, ...]:
    """What was installed in an environment; empty where it is not complete."""
    file = folder / COMPLETE
    return tuple(file.read_text().split("\n")) if file.is_file() else ()

"""Environments of one version each, made once and kept: what `difftest bisect` runs scripts in."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from difftest.errors import InfrastructureError

COMPANIONS = {"torch_xla": ("torch=={version}", "numpy"), "torch": ("numpy",)}
"""What a package needs beside it that its own requirements do not say: torch_xla names no torch, and only its own version's fits."""

MADE = "made"
"""The file that an environment has once it is whole: its requirements."""

SECONDS = 3600.0
MOST_SAID = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Environments:
    """Environments of `package` in the folder `root`, each with the requirements of its version; `python` makes them.

    `companions` are further requirements, in which `{version}` stands for the version.
    """

    root: Path
    package: str
    companions: tuple[str, ...]
    python: Path = Path(sys.executable)

    def requirements(self, version: str) -> list[str]:
        """What is installed for a version."""
        return [f"{self.package}=={version}", *(each.format(version=version) for each in self.companions)]

    def interpreter(self, version: str) -> Path:
        """The Python of a version's environment, made where it is not there; `InfrastructureError` where it cannot be."""
        folder, wanted = (
            self.root.resolve() / f"{self.package}-{version}",
            "\n".join(self.requirements(version)),
        )
        made = folder / MADE
        if not (made.is_file() and made.read_text() == wanted):
            shutil.rmtree(folder, ignore_errors=True)
            _call([str(self.python), "-m", "venv", str(folder)])
            _call([*_installer(folder), *self.requirements(version)])
            made.write_text(wanted)
        return folder / "bin" / "python"


def _installer(folder: Path) -> list[str]:
    """With uv where it is, which keeps one copy of what environments share; else pip."""
    python = str(folder / "bin" / "python")
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    return [uv, "pip", "install", "-q", "-p", python] if uv else [python, "-m", "pip", "install", "-q"]


def _call(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)  # noqa: S603  what the user named
    except (OSError, subprocess.TimeoutExpired) as error:
        msg = f"{command[0]}: {error}"
        raise InfrastructureError(msg) from error
    if done.returncode:
        msg = f"{' '.join(command)}: {done.stderr.strip()[-MOST_SAID:]}"
        raise InfrastructureError(msg)

"""Virtual environments with other versions of packages: made once and kept.

`difftest environments` makes those in which backends run, `difftest bisect` one for every version that it
asks.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from difftest.ground import made_environments
from difftest.ground.errors import InfrastructureError
from difftest.jobs.installed import pythons
from difftest.jobs.installed.pythons import find_uv
from difftest.jobs.installed.recipes import EnvironmentRecipe, require_space

COMPANIONS = {"torch_xla": ("torch=={version}", "numpy"), "torch": ("numpy",)}
"""What a package needs besides its own requirements: torch_xla does not require torch, and works with its own
version of it only.
"""

SECONDS = 3600.0
"""The longest that one installer command may take."""

MOST_LOG = 2000
"""Characters kept of a failed command's standard error, its last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environments:
    """Environments of `package` in the folder `root`, one for each version; `python` makes them.

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
        """The Python of a version's environment, which is made if it is not there.

        `InfrastructureError` when it cannot be made.
        """
        folder = self.root.resolve() / f"{self.package}-{version}"
        return make(folder, self.requirements(version), self.python)


def make(
    folder: Path, requirements: Sequence[str], python: Path = Path(sys.executable), address: str = ""
) -> Path:
    """The Python of the environment in `folder`, which is made if it does not have these requirements.

    `python` makes it. `address` is that of a further package index, whose releases before the final one
    count too. `InfrastructureError` when that fails.
    """
    if made_environments.requirements(folder) != tuple(requirements):
        shutil.rmtree(folder, ignore_errors=True)
        _call(_empty(folder, python))
        _call([*_installer(folder, address), *requirements])
        (folder / made_environments.COMPLETE).write_text("\n".join(requirements))
    return folder / "bin" / "python"


def make_of(
    chosen: EnvironmentRecipe,
    folder: Path,
    requirements: Sequence[str],
    announce: Callable[[], object],
    address: str = "",
) -> Path:
    """As `make`, with the Python and the room on the disk that a recipe needs.

    `announce` is called before an environment is made that there is room for. `InfrastructureError` where
    there is none.
    """
    if made_environments.requirements(folder) == tuple(requirements):
        return folder / "bin" / "python"
    require_space(chosen, folder)
    announce()
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return make(folder, requirements, pythons.installed(chosen.python), address)


def _empty(folder: Path, python: Path) -> list[str]:
    """The command that makes an environment without packages, with uv where `python` is another one.

    A Python of the system's may lack the module for that. It gets pip only where pip is to install: pip's own
    installation takes 5 s of processor time.
    """
    uv = find_uv()
    if uv and python != Path(sys.executable):
        return [uv, "venv", "-q", "--python", str(python), str(folder)]
    return [str(python), "-I", "-m", "venv", *(["--without-pip"] if uv else []), str(folder)]


def _installer(folder: Path, address: str) -> list[str]:
    """The start of an install command: uv where there is one, else pip.

    uv stores packages that several environments have only once. With `-I`, a file `pip.py` in the working
    directory, which may be a corpus from elsewhere, is not the package.
    """
    python = str(folder / "bin" / "python")
    if uv := find_uv():
        nightly = ["--prerelease=allow", "--index-strategy=unsafe-best-match", "--extra-index-url", address]
        return [uv, "pip", "install", "-q", "-p", python, *(nightly if address else [])]
    nightly = ["--pre", "--extra-index-url", address]
    return [python, "-I", "-m", "pip", "install", "-q", *(nightly if address else [])]


def _call(command: Sequence[str]) -> None:
    """Runs a command; `InfrastructureError` when it fails, does not start or takes longer than `SECONDS`."""
    try:
        done = subprocess.run(  # noqa: S603  what the user named
            command, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        msg = f"{command[0]}: {error}"
        raise InfrastructureError(msg) from error
    if done.returncode:
        msg = f"{' '.join(command)}: {done.stderr.strip()[-MOST_LOG:]}"
        raise InfrastructureError(msg)

"""The Python that the packages of an environment need: this one, one of the system's, or one of uv's."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from difftest.findings.faults import age
from difftest.ground.errors import InfrastructureError

SECONDS = 600.0
"""The longest that uv may take to install a Python."""

LATEST_MINOR = 15
"""No later Python 3 is looked for."""

PYENV = "PYENV_ROOT"
"""The variable that names pyenv's folder, by default `~/.pyenv`."""


def running() -> str:
    """The version of this Python, as `3.11`."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def present(least: str) -> Path | None:
    """A Python of this machine whose version is at least `least` (`3.12`); this one for an empty `least`.

    None where there is none. The lowest version wins, since packages are built for it first.
    """
    if not least or age(running()) >= age(least):
        return Path(sys.executable)
    major, first = age(least)
    versions = (f"{major}.{minor}" for minor in range(first, LATEST_MINOR + 1))
    return next(filter(None, map(_of_version, versions)), None)


def installed(least: str) -> Path:
    """As `present`; where there is none, uv installs one. `InfrastructureError` where it cannot be had."""
    python = present(least)
    if python is None and (uv := find_uv()):
        _called((uv, "python", "install", "--quiet", least), SECONDS)
        python = present(least)
    if python is None:
        msg = f"Python {least} or later is not here; install it (apt install python{least}), or uv, which can"
        raise InfrastructureError(msg)
    return python


def announced(least: str) -> str:
    """Which Python an environment gets and where from, in words; empty where it is this one."""
    python = present(least)
    if python == Path(sys.executable):
        return ""
    if python:
        return f"Python {least} or later: {python}"
    return f"Python {least}, which uv installs" if find_uv() else f"Python {least}, which is not here"


def find_uv() -> str | None:
    """The program uv, on the PATH or beside this Python."""
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def _of_version(version: str) -> Path | None:
    """The first Python of exactly this version that starts."""
    return next(
        (
            path
            for path in _candidates(version)
            if _called((str(path), "-IVV")).startswith(f"Python {version}.")
        ),
        None,
    )


def _candidates(version: str) -> Iterator[Path]:
    """Where a Python of this version may be: on the PATH, in pyenv's folder, or with uv."""
    name = f"python{version}"
    if on_path := shutil.which(name):
        yield Path(on_path)
    pyenv = Path(os.environ.get(PYENV) or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/{name}"))
    if uv := find_uv():
        managed = ("python", "find", "--quiet", "--no-python-downloads", "--no-project", version)
        if path := _called((uv, *managed)).strip():
            yield Path(path)


def _called(command: tuple[str, ...], seconds: float = 60.0) -> str:
    """What a command prints; empty where it fails, as pyenv's stand-in for a version not chosen does."""
    try:
        done = subprocess.run(  # noqa: S603  programs of this machine
            command, capture_output=True, text=True, check=False, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""

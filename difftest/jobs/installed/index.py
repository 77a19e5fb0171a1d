"""Which releases of a package there are, as pip says: in its package index, or in one of the user's."""

import re
import subprocess
import sys
from collections.abc import Iterable

from difftest.findings.faults import release_order
from difftest.ground.errors import InfrastructureError
from difftest.jobs.installed.pythons import running

SECONDS = 120.0
"""The longest that pip may take to answer."""

PYTHONS = ("3.12", "3.13", "3.14")
"""Later Pythons that a release may need, the lowest first."""

_VERSIONS = re.compile(r"^Available versions: (.*)$", re.MULTILINE)
_PINNED = re.compile(r"(?P<package>[\w.-]+)==(?P<version>[\w.+]+)")


def releases(package: str, python: str = "", address: str = "") -> tuple[str, ...]:
    """The releases of a package that have a wheel for Python `python`, old to new; for this one by default.

    Builds of one release, such as `2.16.0+cpu`, count once.

    `address` is that of a further index, whose releases before the final one count too: nightly builds.
    Empty where no index has the package. `InfrastructureError` where pip cannot answer.
    """
    command = [sys.executable, "-I", "-m", "pip", "index", "versions", package, "--only-binary=:all:"]
    command += ["--python-version", python or running()]
    command += ["--pre", "--extra-index-url", address] if address else []
    try:
        done = subprocess.run(  # noqa: S603  pip itself
            command, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        msg = f"cannot ask for the releases of {package}: {error}"
        raise InfrastructureError(msg) from error
    if "No module named pip" in done.stderr:
        msg = f"asking for the releases of {package} needs pip, which {sys.executable} lacks"
        raise InfrastructureError(msg)
    printed = _VERSIONS.search(done.stdout)
    listed = printed[1].split(", ") if printed else []
    return tuple(sorted({each.partition("+")[0] for each in listed if each}, key=release_order))


def python_of(requirements: Iterable[str], address: str = "") -> str:
    """The least version of Python, as `3.12`, for which all pinned requirements have wheels.

    Empty where this one will do, or no index knows them: the installer then says what is wrong.
    """
    pinned = [match.groups() for line in requirements if (match := _PINNED.fullmatch(line))]
    fits = (
        python
        for python in (running(), *PYTHONS)
        if all(version.partition("+")[0] in releases(package, python, address) for package, version in pinned)
    )
    least = next(fits, "")
    return "" if least == running() else least

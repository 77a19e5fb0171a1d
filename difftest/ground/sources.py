"""The source files of a module of the user's: their digests, and that they are still the same.

All paths are inside of the working directory, which is what `ray job submit` carries to the workers.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from difftest.ground.errors import UsageError

ROOTS = ("", "src")
"""The folders of the working directory in which packages are looked for."""


def digest(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal; `OSError` where it cannot be read."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def require_unchanged(files: Mapping[str, str]) -> None:
    """`UsageError` unless every file of the working directory has its digest.

    `files` maps paths to digests.
    """
    for name, expected in files.items():
        file = Path.cwd() / name
        if not file.resolve().is_relative_to(Path.cwd().resolve()):
            msg = f"{name} is a link out of the working directory; the case was made of a file inside of it"
            raise UsageError(msg)
        try:
            actual = digest(file)
        except OSError as error:
            msg = (
                f"cannot read {name} in {str(Path.cwd())!r}: {error.strerror}; the case was made of it: "
                "run the command in its folder, or let `ray job submit --working-dir` carry it"
            )
            raise UsageError(msg) from error
        if actual != expected:
            msg = (
                f"{name} has the SHA-256 {actual}; the case was made of {expected}: "
                "restore that file, or make new cases with `difftest run --model`"
            )
            raise UsageError(msg)


def texts(files: Mapping[str, str]) -> dict[str, str]:
    """What is in the files, by their paths; `UsageError` unless every file has its digest."""
    require_unchanged(files)
    return {name: (Path.cwd() / name).read_text() for name in files}

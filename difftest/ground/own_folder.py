"""Temporary folders that outlive no process: what a killed one left is removed by the next start.

A process locks its folders, and the kernel releases the locks however it ends. A folder that is not locked is
abandoned.
"""

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["bundle", "corpus", "graphs", "green", "out", "ray", "reproducer", "run", "zygotes"]
"""What the folders are for: the word in their names."""

KINDS: tuple[Kind, ...] = get_args(Kind)

SHORT_PARENT = Path("/tmp")  # noqa: S108  with a private folder in it
"""The parent of folders with sockets where the temporary folder's name is too long or not plain ASCII."""

REMOVAL_SECONDS = 2.0
"""How long a folder is removed again, while processes that are about to end still write to it."""

_NAME = re.compile(rf"difftest-({'|'.join(KINDS)})_[a-z0-9_]{{8}}")


@contextmanager
def own_folder(kind: Kind, parent: Path | None = None) -> Iterator[Path]:
    """A new folder for one of `KINDS` below `parent`, by default the temporary folder; removed at the end."""
    folder, lock = _locked_folder(kind, parent)
    try:
        yield folder
    finally:
        remove(folder)
        os.close(lock)


def short_parent(longest: int) -> Path:
    """The temporary folder, or a plain one where its name has more than `longest` bytes or not only ASCII.

    Ray (2.60) does not start in a folder with other characters.
    """
    usual = Path(tempfile.gettempdir())
    return usual if len(os.fsencode(usual)) <= longest and str(usual).isascii() else SHORT_PARENT


def abandoned(parent: Path | None = None) -> Iterator[Path]:
    """The folders below `parent`, by default the temporary folder, that this user's ended processes left.

    Each stays locked until the next is requested.
    """
    for folder in sorted((parent or Path(tempfile.gettempdir())).glob("difftest-*_*")):
        if not _NAME.fullmatch(folder.name):
            continue
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # gone, no folder, or somebody else's
            continue
        try:
            if os.fstat(lock).st_uid == os.getuid() and _locks(lock):
                yield folder
        finally:
            os.close(lock)


def remove_abandoned(parent: Path | None = None) -> None:
    """Removes the `abandoned` folders below `parent`, by default the temporary folder."""
    for folder in abandoned(parent):
        remove(folder)


def remove(folder: Path) -> None:
    """Removes a folder with everything in it, as far as that is possible."""
    end = time.monotonic() + REMOVAL_SECONDS
    shutil.rmtree(folder, ignore_errors=True)
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.1)
        shutil.rmtree(folder, ignore_errors=True)


def _locked_folder(kind: Kind, parent: Path | None) -> tuple[Path, int]:
    """A new folder and the descriptor that locks it; another one where it was taken for abandoned before."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"difftest-{kind}_", dir=parent))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        if _locks(lock) and folder.is_dir():
            return folder, lock
        os.close(lock)


def _locks(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

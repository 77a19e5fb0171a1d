"""Reading lines and writing files so that no write is half done, lost in a crash or led away by a link."""

import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from difftest.ground.errors import DamagedError, InfrastructureError, UsageError
from difftest.records import read_limits

FULL_OR_BROKEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENFILE, errno.EMFILE})
"""The errors of writing that say nothing about the place that the user gave."""

_COPIED_BYTES = 2**20
_LINKED = frozenset({errno.ELOOP, errno.ENXIO})
"""What opening a link without following it, or a pipe without waiting for its reader, fails with."""


def lines_that_fit(file: Path, start: int = 0) -> Iterator[tuple[bytes, bool, int]]:
    """The complete lines of `file` from byte `start` on, which begins a line.

    Each comes without its end, with whether it is of a readable length, and with the byte that follows it. A
    longer line is cut to `MOST_LINE_BYTES`. None if there is no such file; `UsageError` if it cannot be read.
    """
    if not file.exists():
        return
    most, end = read_limits.MOST_LINE_BYTES, start
    try:
        with os.fdopen(open_plain(file, os.O_RDONLY), "rb") as opened:
            opened.seek(start)
            while line := opened.readline(most):
                end += len(line)
                if line.endswith(b"\n"):
                    yield line[:-1], True, end
                elif len(line) == most:
                    while (rest := opened.readline(most)) and not rest.endswith(b"\n"):
                        end += len(rest)
                    end += len(rest)
                    yield line, False, end
    except OSError as error:
        raise cannot_read(file, error) from error


def whole_lines(file: Path) -> Iterator[bytes]:
    """The complete lines of `file`, without their line ends; none if there is no such file.

    `UsageError` if a line is longer than `MOST_LINE_BYTES`, or the file cannot be read.
    """
    for line, fits, _ in lines_that_fit(file):
        if not fits:
            raise too_long(str(file))
        yield line


def too_long(file: str) -> DamagedError:
    """The error for a line that is longer than `MOST_LINE_BYTES`."""
    most = f"{read_limits.MOST_LINE_BYTES} bytes"
    msg = f"{file} has a line of more than {most}, the most that is read of one"
    return DamagedError(msg)


def open_plain(file: Path, flags: int) -> int:
    """A descriptor of `file`, opened with `flags`; `UsageError` if it is a link, a pipe or a device.

    For writing also if it is a hard link: what is written would change the file's other names too.
    """
    try:
        descriptor = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in _LINKED:
            raise _not_plain(file) from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise _not_plain(file)
    if flags & (os.O_WRONLY | os.O_RDWR) and status.st_nlink > 1:
        os.close(descriptor)
        msg = (
            f"{str(file)!r} has {status.st_nlink} names (hard links), and what is written to it would change "
            "the others too; replace it by a copy"
        )
        raise UsageError(msg)
    return descriptor


def require_plain(place: os.DirEntry[str]) -> None:
    """`UsageError` where `place`, or anything below it, is neither a file nor a folder but, say, a link."""
    places = [place]
    while places:
        place = places.pop()
        if place.is_dir(follow_symlinks=False):
            # A folder may be deleted meanwhile, or not readable, which is reported when it is read.
            with suppress(OSError), os.scandir(place.path) as inner:
                places += inner
        elif not place.is_file(follow_symlinks=False):
            raise _not_plain(Path(place.path))


def refuse_links_below(folder: Path) -> None:
    """`UsageError` where anything in `folder` is neither a file nor a folder."""
    with suppress(FileNotFoundError), os.scandir(folder) as places:
        for place in places:
            require_plain(place)


def refuse_link(path: Path) -> None:
    """`UsageError` where `path` is a symbolic link."""
    if path.is_symlink():
        raise _not_plain(path)


def _not_plain(path: Path) -> UsageError:
    return UsageError(
        f"{str(path)!r} is a link or a special file, which could lead reads and writes elsewhere; "
        "corpora and bundles hold files and folders only, so remove it"
    )


def replace_file(file: Path, content: bytes) -> None:
    """Replaces `file` by one with this content, as `replacing` does."""
    with replacing(file) as opened:
        opened.write(content)


@contextmanager
def replacing(file: Path) -> Iterator[BinaryIO]:
    """A new file beside `file`, which is renamed to `file` at the end.

    It is on disk then. The new file's name cannot be predicted, so that nobody can put a link in its place.
    """
    unfinished = file.with_name(f".{file.name[:200]}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(open_plain(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as opened:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def keep_ranges(file: Path, ranges: Sequence[tuple[int, int]]) -> None:
    """Deletes all of `file` but the bytes in `ranges`, which are (first, after the last) and in order.

    It is done when this returns, or not at all. Where only the end goes, nothing is copied.
    """
    if all(after == first for (_, after), (first, _) in pairwise([(0, 0), *ranges])):
        with os.fdopen(open_plain(file, os.O_RDWR), "r+b") as opened:
            opened.truncate(ranges[-1][1] if ranges else 0)
            os.fsync(opened.fileno())
        return
    with os.fdopen(open_plain(file, os.O_RDONLY), "rb") as opened, replacing(file) as replacement:
        for start, end in ranges:
            opened.seek(start)
            for place in range(start, end, _COPIED_BYTES):
                replacement.write(opened.read(min(_COPIED_BYTES, end - place)))


def sync_file(file: Path) -> None:
    """Waits until the content of `file` is on disk."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def sync_folder(folder: Path) -> None:
    """Waits until the names in `folder` are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move_aside(path: Path, place: Path) -> Path:
    """Renames `path` to `place`, or to `place` with the first number that is free; returns the new name."""
    number, free = 0, place
    while os.path.lexists(free):
        number += 1
        free = place.with_name(f"{place.name}.{number}")
    free.parent.mkdir(exist_ok=True)
    path.rename(free)
    sync_folder(free.parent)
    sync_folder(path.parent)
    return free


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Turns an `OSError` while `file` is written into an `InfrastructureError`: the disk is full or gone."""
    try:
        yield
    except OSError as error:
        msg = f"cannot write {str(file)!r}: {error.strerror}"
        raise InfrastructureError(msg) from error


def cannot_read(file: Path, error: OSError) -> UsageError:
    """What to raise for `error`."""
    return UsageError(f"cannot read {str(file)!r}: {error.strerror}")


def cannot_write(place: str, error: OSError, allowed: str) -> InfrastructureError | UsageError:
    """What to raise for `error`: the machine's failure where its disk is full or broken, else wrong usage."""
    msg = f"cannot write {place}: {error.strerror}"
    if error.errno in FULL_OR_BROKEN:
        return InfrastructureError(f"{msg}; make room, and the same command continues")
    return UsageError(f"{msg}; {allowed}")


def append(file: Path, content: bytes) -> None:
    """Appends whole lines in one write; they are on disk when this returns.

    An incomplete last line, as a killed writer leaves it, is cut off first: it would spoil the line that
    follows. `InfrastructureError` when the disk is full, `UsageError` where `file` is a link.
    """
    new = not file.exists()
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    with writing(file), os.fdopen(open_plain(file, flags), "a+b", buffering=0) as opened:
        cut_incomplete_line(opened)
        if opened.write(content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(opened.fileno())
        if new:
            sync_folder(file.parent)


def cut_incomplete_line(opened: io.FileIO) -> None:
    """Cuts off an incomplete last line, as a killed writer leaves it."""
    size = opened.seek(0, os.SEEK_END)
    opened.seek(max(0, size - 1))
    if opened.read(1) not in {b"", b"\n"}:
        opened.seek(0)
        opened.truncate(opened.readall().rfind(b"\n") + 1)

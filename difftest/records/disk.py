"""Reading lines and writing files so that a killed process leaves no file half written."""

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from difftest.errors import InfrastructureError, UsageError
from difftest.records import read_limits


def whole_lines(file: Path) -> Iterator[bytes]:
    """The complete lines of `file`, without their line ends; none if there is no such file.

    `UsageError` if a line is longer than `MOST_LINE_BYTES`, or the file cannot be read.
    """
    if not file.exists():
        return
    try:
        with file.open("rb") as opened:
            while line := opened.readline(read_limits.MOST_LINE_BYTES):
                if line.endswith(b"\n"):
                    yield line[:-1]
                elif len(line) == read_limits.MOST_LINE_BYTES:
                    most = f"{read_limits.MOST_LINE_BYTES} bytes"
                    msg = f"{file} has a line of more than {most}, the most that is read of one"
                    raise UsageError(msg)
    except OSError as error:
        msg = f"cannot read {str(file)!r}: {error.strerror}"
        raise UsageError(msg) from error


def replace_file(file: Path, content: bytes) -> None:
    """Writes `content` to a new file beside `file`, and renames it to `file`."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
    unfinished.write_bytes(content)
    unfinished.replace(file)


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Turns an `OSError` while `file` is written into an `InfrastructureError`: the disk is full or gone."""
    try:
        yield
    except OSError as error:
        msg = f"cannot write {str(file)!r}: {error.strerror}"
        raise InfrastructureError(msg) from error


def cut_incomplete_line(opened: io.FileIO) -> None:
    """Cuts off an incomplete last line, as a killed writer leaves it."""
    size = opened.seek(0, os.SEEK_END)
    opened.seek(max(0, size - 1))
    if opened.read(1) not in {b"", b"\n"}:
        opened.seek(0)
        opened.truncate(opened.readall().rfind(b"\n") + 1)

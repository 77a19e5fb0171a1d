"""Single files on disk: how much of each kind is read, and writes that others see whole or not at all."""

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from difftest.errors import InfrastructureError, UsageError
from difftest.records import read_limits


def whole_lines(file: Path) -> Iterator[bytes]:
    """The lines of `file` that have their ends, without them; none where there is no file.

    `UsageError` where one is longer than `MOST_LINE_BYTES`, or the file cannot be read.
    """
    if not file.exists():
        return
    try:
        with file.open("rb") as opened:
            while line := opened.readline(read_limits.MOST_LINE_BYTES):
                if line.endswith(b"\n"):
                    yield line[:-1]
                elif len(line) == read_limits.MOST_LINE_BYTES:
                    msg = f"{file} has a line of more than {read_limits.MOST_LINE_BYTES} bytes, the most that is read of one"
                    raise UsageError(msg)
    except OSError as error:
        msg = f"cannot read {str(file)!r}: {error.strerror}"
        raise UsageError(msg) from error


def replace_file(file: Path, content: bytes) -> None:
    """Writes `content` beside `file` and renames it into place."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
    unfinished.write_bytes(content)
    unfinished.replace(file)


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """A disk that is full or gone is the machine's fault, and no traceback."""
    try:
        yield
    except OSError as error:
        msg = f"cannot write {str(file)!r}: {error.strerror}"
        raise InfrastructureError(msg) from error


def drop_half_a_line(opened: io.FileIO) -> None:
    """Cuts off what follows the last line's end."""
    size = opened.seek(0, os.SEEK_END)
    opened.seek(max(0, size - 1))
    if opened.read(1) not in {b"", b"\n"}:
        opened.seek(0)
        opened.truncate(opened.readall().rfind(b"\n") + 1)

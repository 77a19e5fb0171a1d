"""What a reduction has tried, on disk, one line for each run.

An interrupted reduction continues from there.
"""

import os
import threading
from pathlib import Path

import msgspec

from difftest.errors import UsageError
from difftest.records.disk import open_plain


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a case, by its id, shows what is being reduced."""

    case: str
    shows: bool


class Journal:
    """Results by case id, kept in `file` if one is given. `UsageError` if that cannot be read."""

    def __init__(self, file: Path | None = None) -> None:
        self._file, self._lock = file, threading.Lock()
        self._results = dict(_read(file)) if file and file.exists() else {}

    def get(self, case: str) -> bool | None:
        """Whether the case shows what is being reduced; None if it was not tried."""
        return self._results.get(case)

    def add(self, case: str, *, shows: bool) -> None:
        """Records a result; may be called from any thread."""
        with self._lock:
            self._results[case] = shows
            if self._file:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                with os.fdopen(open_plain(self._file, flags), "ab", buffering=0) as lines:
                    lines.write(msgspec.json.encode(Entry(case=case, shows=shows)) + b"\n")

    def close(self) -> None:
        """Deletes the file: the reduction is complete."""
        if self._file:
            self._file.unlink(missing_ok=True)


def _read(file: Path) -> list[tuple[str, bool]]:
    """All complete lines; a killed process may leave an incomplete last one."""
    try:
        entries = [msgspec.json.decode(line, type=Entry) for line in file.read_bytes().split(b"\n")[:-1]]
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        msg = f"{file} is no journal of a reduction: {error}; remove it to start over"
        raise UsageError(msg) from error
    return [(entry.case, entry.shows) for entry in entries]

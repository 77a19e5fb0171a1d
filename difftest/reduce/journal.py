"""What a reduction has tried, on disk: one line a run, so that what was interrupted goes on where it stood."""

import threading
from pathlib import Path

import msgspec

from difftest.errors import UsageError


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a case, by its id, shows what is being reduced."""

    case: str
    shows: bool


class Journal:
    """Answers by case id; kept in `file` where one is given. `UsageError` where that cannot be read."""

    def __init__(self, file: Path | None = None) -> None:
        self._file, self._lock = file, threading.Lock()
        self._known = dict(_read(file)) if file and file.exists() else {}

    def get(self, case: str) -> bool | None:
        """What was found of a case, None when it was not tried."""
        return self._known.get(case)

    def add(self, case: str, *, shows: bool) -> None:
        """Remembers an answer, from any thread."""
        with self._lock:
            self._known[case] = shows
            if self._file:
                with self._file.open("ab", buffering=0) as lines:
                    lines.write(msgspec.json.encode(Entry(case=case, shows=shows)) + b"\n")

    def close(self) -> None:
        """Nothing is left to go on with: the file goes."""
        if self._file:
            self._file.unlink(missing_ok=True)


def _read(file: Path) -> list[tuple[str, bool]]:
    """Every whole line; half a last one is what a killed run leaves."""
    try:
        entries = [msgspec.json.decode(line, type=Entry) for line in file.read_bytes().split(b"\n")[:-1]]
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        msg = f"{file} is no journal of a reduction: {error}; remove it to begin anew"
        raise UsageError(msg) from error
    return [(entry.case, entry.shows) for entry in entries]

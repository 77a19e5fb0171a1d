"""What a reduction has tried, on disk, one line for each run.

An interrupted reduction continues from there.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from difftest.ground.errors import DamagedError
from difftest.records.corpus import DAMAGED
from difftest.records.disk import append, move_aside, whole_lines


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a case, by its id, shows what is being reduced."""

    case: str
    shows: bool


class ReductionJournal:
    """Results by case id, kept in `file` if one is given.

    A damaged file is renamed, and the reduction starts anew: `damage` says why, and where the file is now.
    `UsageError` where `file` is a link or may not be read.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file, self._lock = file, threading.Lock()
        self._results: dict[str, bool] = {}
        self.damage = ""
        try:
            self._results = dict(_read(file)) if file else {}
        except DamagedError as error:
            kept = move_aside(file, file.with_name(f"{file.name}.{DAMAGED}")) if file else None
            self.damage = f"{error}; moved to {kept}, and the reduction starts anew"

    def get(self, case: str) -> bool | None:
        """Whether the case shows what is being reduced; None if it was not tried."""
        return self._results.get(case)

    def add(self, case: str, *, shows: bool) -> None:
        """Records a result; may be called from any thread."""
        with self._lock:
            self._results[case] = shows
            if self._file:
                append(self._file, msgspec.json.encode(JournalEntry(case=case, shows=shows)) + b"\n")

    def close(self) -> None:
        """Deletes the file: the reduction is complete."""
        if self._file:
            self._file.unlink(missing_ok=True)


def _read(file: Path) -> Iterator[tuple[str, bool]]:
    """All complete lines, none if there is no file; a killed process may leave an incomplete last one."""
    try:
        for line in whole_lines(file):
            entry = msgspec.json.decode(line, type=JournalEntry)
            yield entry.case, entry.shows
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        msg = f"{file} is no journal of a reduction: {error}"
        raise DamagedError(msg) from error

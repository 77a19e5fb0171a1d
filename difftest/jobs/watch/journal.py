"""What a watch has tried, a JSON object a line: the same command continues after the last whole line."""

from pathlib import Path

import msgspec

from difftest.findings.flips import Tried
from difftest.ground.errors import UsageError
from difftest.records.disk import cannot_write

FILE = "tried.jsonl"


class Journal:
    """The lines of a folder, which is made."""

    def __init__(self, folder: Path) -> None:
        """Reads what is there; a last line that was cut off is dropped. `UsageError` for any other."""
        self._file = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = self._file.read_text() if self._file.exists() else ""
            whole = text[: text.rfind("\n") + 1]
            if whole != text:
                self._file.write_text(whole)
        except OSError as error:
            raise cannot_write(repr(str(folder)), error, "give another folder") from error
        self.tried = [self._read(number, line) for number, line in enumerate(whole.splitlines(), 1)]

    def __contains__(self, tried: Tried) -> bool:
        """Whether the same was tried on the same release, whatever it showed."""
        return any((line.subject, line.release) == (tried.subject, tried.release) for line in self.tried)

    def add(self, tried: Tried) -> None:
        """Writes a line at once."""
        self.tried.append(tried)
        with self._file.open("a") as file:
            file.write(msgspec.json.encode(tried).decode() + "\n")

    def _read(self, number: int, line: str) -> Tried:
        try:
            return msgspec.json.decode(line, type=Tried)
        except msgspec.DecodeError as error:
            msg = f"{self._file}, line {number}: {error}; give a folder that `difftest watch` has written"
            raise UsageError(msg) from error

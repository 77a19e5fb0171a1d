"""The index of a campaign's lines: their columns, in files beside them, so that few lines are decoded again.

The lines are the truth, and the index follows from them. It has a file for each part of `PART_BYTES` or a
little more; the lines after the last part are always read. A file's name says which bytes it is about and
what their digest is. Where they have another, or the file is missing or damaged, the lines are read instead.

A corpus from elsewhere may have brought its own index, which nobody should open. Therefore a name also has a
key of when this machine made the lock file of the campaign, which no other machine can know. Other users of
this machine can, so that only this user's own index is read.
"""

import hashlib
import os
import re
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import BadZipFile

import msgspec

from difftest.ground.errors import UsageError
from difftest.records.columns import NAMES, Columns
from difftest.records.disk import open_plain, replace_file
from difftest.records.observation import Line, Observation, read_lines

PART_BYTES = 2**25
"""The least of a part: what is decoded at most when a campaign is resumed, and kept in memory meanwhile."""

VERSION = 2
"""To be raised when the columns of equal lines change."""

_CHUNK_BYTES = 2**20
_NAME = re.compile(r"(\d+)-(\d+)\.(\d+)\.([0-9a-f]{32})\.npz")
_DAMAGED = (OSError, UsageError, ValueError, KeyError, EOFError, NotImplementedError, BadZipFile)
"""What reading a damaged index file raises; msgspec's errors are ValueErrors."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some successive lines of a campaign's file: the bytes from `start` to `end`, and the number of lines.

    `lines` are there unless the part is indexed. A case's lines are in one part.
    """

    file: Path
    start: int
    end: int
    count: int
    lines: tuple[Line, ...] = ()
    index: Path | None = None

    @property
    def unreadable(self) -> tuple[Line, ...]:
        """The damaged lines; an indexed part has none."""
        return tuple(line for line in self.lines if not isinstance(line.run, Observation))

    def columns(self, names: Collection[str] = NAMES) -> Columns:
        """Some columns of the readable lines."""
        if self.index:
            with suppress(*_DAMAGED), os.fdopen(open_plain(self.index, os.O_RDONLY), "rb") as opened:
                return Columns.from_file(opened, names)
            with suppress(OSError):
                self.index.unlink(missing_ok=True)  # it is made again by whoever reads the lines next
        lines = self.lines or _read(self.file, self.start, 1, self.end)
        readable = [(line.run, line.end - self.start) for line in lines if isinstance(line.run, Observation)]
        return Columns.of([run for run, _ in readable], [end for _, end in readable])


def parts(file: Path) -> Iterator[FilePart]:
    """The parts of a campaign's file, in order. New ones are indexed, where that is possible.

    `UsageError` naming file and line if a line was written by a newer version.
    """
    if not file.exists():
        return
    index = _Index(file)
    state, unchanged, used, end = index.state(), index.checked(), set[str](), 0
    for part in _walk(file, index, verified=unchanged):
        yield part
        used |= {part.index.name} if part.index else set()
        end = part.end
    if not unchanged:
        index.conclude(state, used, end)


def follow(file: Path) -> None:
    """Indexes the new parts of a campaign's file, for which earlier ones are not read again."""
    for _ in _walk(file, _Index(file), verified=True):
        pass


def _walk(file: Path, index: "_Index", *, verified: bool) -> Iterator[FilePart]:
    position, number = 0, 1
    while True:
        part = index.parts.get(position)
        if part is None or not (verified or index.is_current(part)):
            part, ended = _next_part(file, position, number)
            if ended and not part.unreadable:
                part = index.keep(part)
        if not part.count:
            return
        yield part
        position, number = part.end, number + part.count


def _next_part(file: Path, start: int, number: int) -> tuple[FilePart, bool]:
    """The lines of the next part: `PART_BYTES` to the end of a case, or all the rest.

    Also whether its last case is known to have ended, as another one follows.
    """
    lines, ended = list[Line](), False
    case: object = None
    for line in read_lines(file, start, number):
        of = (line.run.index, line.run.case) if isinstance(line.run, Observation) else None
        if lines and lines[-1].end - start >= PART_BYTES and of != case:
            ended = True
            break
        lines.append(line)
        case = of
    return FilePart(file, start, lines[-1].end if lines else start, len(lines), tuple(lines)), ended


def _read(file: Path, start: int, number: int, end: int) -> Iterator[Line]:
    for line in read_lines(file, start, number):
        if line.end > end:
            return
        yield line


@dataclass(slots=True)
class _Index:
    """The index files of a campaign's file: `parts` by where they start."""

    file: Path
    key: str = field(init=False)
    parts: dict[int, FilePart] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.key = _key(self.file)
        for name in self._names() if self.key else ():
            matched = _NAME.fullmatch(name.removeprefix(f"{self._prefix}{self.key}."))
            if matched and self.file.with_name(name).lstat().st_uid == os.geteuid():
                start, end, count = (int(text) for text in matched.groups()[:3])
                self.parts[start] = FilePart(self.file, start, end, count, index=self.file.with_name(name))

    @property
    def _prefix(self) -> str:
        return f".{self.file.stem}.index."

    def _names(self) -> list[str]:
        return [at.name for at in self.file.parent.iterdir() if at.name.startswith(self._prefix)]

    def is_current(self, part: FilePart) -> bool:
        """Whether the lines of an indexed part are still those that were indexed."""
        digest = _NAME.search(part.index.name) if part.index else None
        return bool(digest) and digest[4] == _digest(part)  # type: ignore[index]

    def keep(self, part: FilePart) -> FilePart:
        """Writes the index file of a part; the part itself where that is not possible."""
        if not self.key:
            return part
        name = f"{self._prefix}{self.key}.{part.start}-{part.end}.{part.count}.{_digest(part)}.npz"
        place = self.file.with_name(name)
        with suppress(OSError, UsageError):
            replace_file(place, part.columns().to_bytes())
            return FilePart(part.file, part.start, part.end, part.count, index=place)
        return part

    def state(self) -> bytes:
        """What changes when somebody writes to the file of lines."""
        at = self.file.stat()
        return f"{at.st_ino} {at.st_size} {at.st_mtime_ns}\n".encode()

    @property
    def _checked(self) -> Path:
        return self.file.with_name(f"{self._prefix}{self.key}.checked")

    def checked(self) -> bool:
        """Whether nobody has written to the file since all of its parts were last verified."""
        if not self.parts:
            return False
        with suppress(OSError, UsageError), os.fdopen(open_plain(self._checked, os.O_RDONLY), "rb") as opened:
            return opened.read(_CHUNK_BYTES) == self.state()
        return False

    def conclude(self, state: bytes, used: AbstractSet[str], end: int) -> None:
        """Keeps the state in which all parts were verified, and deletes the files that are not `used`.

        Those of parts after `end` stay, as somebody else may have made them meanwhile.
        """
        later = {
            part.index.name for part in _Index(self.file).parts.values() if part.index and part.start >= end
        }
        with suppress(OSError, UsageError):
            for name in set(self._names()) - used - later if self.key else ():
                self.file.with_name(name).unlink(missing_ok=True)
            if used:
                replace_file(self._checked, state)


def _key(file: Path) -> str:
    """A key of this machine's copy of a campaign and of the columns' names; empty without a lock file.

    The kernel sets the time at which the lock file was made or last changed, and no program can.
    """
    with suppress(OSError):
        lock = file.with_name(f".{file.stem}.lock").lstat()
        parts = (VERSION, NAMES, lock.st_ino, lock.st_ctime_ns)
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]
    return ""


def _digest(part: FilePart) -> str:
    """The digest of a part's lines."""
    digest, left = hashlib.sha256(), part.end - part.start
    with os.fdopen(open_plain(part.file, os.O_RDONLY), "rb") as opened:
        opened.seek(part.start)
        while left and (chunk := opened.read(min(left, _CHUNK_BYTES))):
            digest.update(chunk)
            left -= len(chunk)
    return digest.hexdigest()[:32]

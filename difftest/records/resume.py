"""Resuming: a killed campaign continues where it stopped.

A campaign is named by what defines it, so the same command opens its own file again. A case is recorded when
all of its lines are in the file; a case with only some of them was cut off, is dropped, and runs again. So
does a case of which infrastructure lost a comparison.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from difftest.ground.errors import UsageError
from difftest.records.columns import END, Columns
from difftest.records.comparisons import COUNTED, Comparisons
from difftest.records.corpus import OBSERVATIONS, Corpus
from difftest.records.disk import keep_ranges, move_aside, open_plain, writing
from difftest.records.index import parts
from difftest.records.observation import LOST

_NAME = re.compile(r"[\w.-]{1,200}")
_CASE = ("index", "case", "runs", "fingerprints", END)
"""The columns that tell which cases are complete, and what they showed."""


@dataclass(slots=True, kw_only=True)
class CampaignRecord:
    """What a campaign has recorded.

    The cases as (index, id), the number of lines, the case indices by fingerprint, and how comparisons ended.
    """

    cases: set[tuple[int, str]] = field(default_factory=set)
    runs: int = 0
    sightings: dict[str, set[int]] = field(default_factory=dict)
    comparisons: Comparisons = field(default_factory=Comparisons)

    def add(self, lines: Columns) -> None:
        """Adds lines of cases that are complete."""
        index, case, shown = lines.numbers("index"), lines.texts("case"), lines.texts("fingerprints")
        ids = map(case.distinct.__getitem__, case.codes.tolist())
        self.cases.update(zip(index.tolist(), ids, strict=True))
        self.runs += len(index)
        self.comparisons.add(lines)
        for code, value in enumerate(shown.distinct):
            indices = index[shown.codes == code].tolist()
            for fingerprint in msgspec.json.decode(value, type=tuple[str, ...]) if indices else ():
                self.sightings.setdefault(fingerprint, set()).update(indices)


@contextmanager
def resumed(corpus: Corpus, campaign: str, *, fresh: bool = False) -> Iterator[CampaignRecord]:
    """Locks a campaign for this process, and yields what it has recorded.

    `UsageError` while another process runs it.

    `fresh` renames the file of its runs to `<campaign>.jsonl.<number>`, which nothing reads any more; its
    findings stay.
    """
    with writing(file := _lock_file(corpus, campaign)):
        descriptor = open_plain(file, os.O_RDWR | os.O_CREAT)
    with os.fdopen(descriptor, "rb") as lock:
        with corpus.locked():
            if not _try_lock(lock.fileno(), fcntl.LOCK_EX):
                running = f"campaign {campaign} is being run on {str(corpus.root)!r} already"
                msg = f"{running}; wait for it, or give another --out or --seed"
                raise UsageError(msg)
        if fresh and (lines := corpus.lines(campaign)).exists():
            with writing(lines):
                move_aside(lines, lines)
        yield _recorded(corpus, campaign)


def _recorded(corpus: Corpus, campaign: str) -> CampaignRecord:
    """Reads a campaign's lines, and deletes those of cases that are not complete or lost a comparison."""
    recorded, file = CampaignRecord(), corpus.lines(campaign)
    kept, end = list[tuple[int, int]](), 0
    for part in parts(file):
        columns = part.columns({*_CASE, *COUNTED})
        complete = _complete(columns)
        recorded.add(columns.where(complete))
        kept += [(part.start + first, part.start + after) for first, after in _ranges(columns, complete)]
        end = part.end
    if sum(after - first for first, after in kept) < end:
        with writing(file):
            keep_ranges(file, kept)
    return recorded


def _complete(columns: Columns) -> npt.NDArray[np.bool_]:
    """Which lines are of a case that has all of its lines, none of which is of a lost comparison."""
    index, case, runs = columns.numbers("index"), columns.texts("case").codes, columns.numbers("runs")
    if not len(index):
        return np.zeros(0, dtype=np.bool_)
    begins = np.flatnonzero((np.diff(index) != 0) | (np.diff(case) != 0)) + 1
    starts = np.concatenate([[0], begins])
    sizes = np.diff(np.append(starts, len(index)))
    lost = columns.texts("verdict").among({LOST})
    whole = (sizes >= np.maximum.reduceat(runs, starts)) & ~np.logical_or.reduceat(lost, starts)
    complete: npt.NDArray[np.bool_] = np.repeat(whole, sizes)
    return complete


def _ranges(columns: Columns, kept: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """The bytes of successive lines that are `kept`, as (first, after the last)."""
    ends = columns.numbers(END)
    changes = np.flatnonzero(np.diff(np.concatenate([[0], kept, [0]]).astype(np.int8)))
    for first, after in changes.reshape(-1, 2).tolist():
        yield int(ends[first - 1]) if first else 0, int(ends[after - 1])


def _lock_file(corpus: Corpus, campaign: str) -> Path:
    """The file that the process which runs a campaign locks.

    The kernel releases the lock however the process ends.
    """
    return corpus.root / OBSERVATIONS / f".{campaign}.lock"


def is_running(corpus: Corpus, campaign: str) -> bool:
    """Whether some process runs a campaign.

    The caller holds the corpus's lock, as this takes the campaign's for a moment.
    """
    if not _NAME.fullmatch(campaign) or not (lock := _lock_file(corpus, campaign)).is_file():
        return False
    with os.fdopen(open_plain(lock, os.O_RDONLY), "rb") as opened:
        return not _try_lock(opened.fileno(), fcntl.LOCK_SH)


def _try_lock(descriptor: int, kind: int) -> bool:
    """Whether the file could be locked without waiting."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

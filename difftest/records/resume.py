"""Resuming: a campaign that was killed goes on where it was, and everybody is told of its findings once.

The one idea: a campaign is named by what defines it, so that the same command meets its own file again. A case is recorded when all of
its lines are there; what is there only in part was cut off, is dropped, and is run again.
"""

import fcntl
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, groupby
from pathlib import Path

import msgspec

from difftest.errors import UsageError
from difftest.records.corpus import OBSERVATIONS, Corpus
from difftest.records.disk import replace_file
from difftest.records.finding import Finding
from difftest.records.observation import Observation, read_observations

_NAME = re.compile(r"[\w.-]{1,200}")


@dataclass(slots=True, kw_only=True)
class Recorded:
    """What a campaign has recorded: its cases by index and id, the number of runs, and by fingerprint the indices that showed it."""

    cases: set[tuple[int, str]] = field(default_factory=set)
    runs: int = 0
    sightings: dict[str, set[int]] = field(default_factory=dict)

    def add(self, observation: Observation) -> None:
        """One more run of a case that is there whole."""
        self.cases.add((observation.index, observation.case))
        self.runs += 1
        for fingerprint in observation.fingerprints:
            self.sightings.setdefault(fingerprint, set()).add(observation.index)


@contextmanager
def resumed(corpus: Corpus, campaign: str, *, fresh: bool = False) -> Iterator[Recorded]:
    """Keeps a campaign to this process, and yields what it has recorded; `UsageError` while another process runs it.

    `fresh` sets its runs aside, as `<campaign>.jsonl.<number>`, which nothing reads any more; its findings stay.
    """
    with _mark(corpus, campaign).open("ab") as mark:
        with corpus.locked():
            if not _taken(mark.fileno(), fcntl.LOCK_EX):
                msg = f"campaign {campaign} is being run on {str(corpus.root)!r} already; wait for it, or give another --out or --seed"
                raise UsageError(msg)
        if fresh:
            _set_aside(corpus.lines(campaign))
        yield _recorded(corpus, campaign)


def unannounced(corpus: Corpus, campaign: str) -> tuple[Finding, ...]:
    """The findings that nobody was told of and that `campaign` must tell, by fingerprint.

    They are its own, and those of campaigns that ended without telling: these become its own, so that no other tells them too.
    """
    mine = []
    with corpus.locked():
        for finding in corpus.findings():
            if (
                finding.unannounced
                and finding.unannounced[0] != campaign
                and not _runs(corpus, finding.unannounced[0])
            ):
                finding = msgspec.structs.replace(finding, unannounced=(campaign, finding.unannounced[1]))  # noqa: PLW2901  it is ours from here
                corpus.put(finding)
            if finding.unannounced and finding.unannounced[0] == campaign:
                mine.append(finding)
    return tuple(mine)


def mark_announced(corpus: Corpus, fingerprints: Iterable[str]) -> None:
    """Writes down that somebody was told of these findings: they are known from now on."""
    for fingerprint in fingerprints:
        corpus.amend(fingerprint, unannounced=None)


def _recorded(corpus: Corpus, campaign: str) -> Recorded:
    """Reads a campaign's runs, and drops the lines of cases that are not there whole."""
    recorded, kept, dropped = Recorded(), [], False
    file = corpus.lines(campaign)
    for _, lines in groupby(read_observations(file), key=lambda run: (run.index, run.case)):
        runs = list(lines)
        if len(runs) < max(run.runs for run in runs):
            dropped = True
            continue
        kept += runs
        for run in runs:
            recorded.add(run)
    if dropped:
        replace_file(file, b"".join(msgspec.json.encode(run) + b"\n" for run in kept))
    return recorded


def _set_aside(file: Path) -> None:
    """Renames a file to the first number that is free."""
    if file.exists():
        places = (file.with_name(f"{file.name}.{number}") for number in count(1))
        file.rename(next(place for place in places if not place.exists()))


def _mark(corpus: Corpus, campaign: str) -> Path:
    """The file that whoever runs a campaign holds a lock on: the kernel lets it go, however its holder ended."""
    return corpus.root / OBSERVATIONS / f".{campaign}.lock"


def _runs(corpus: Corpus, campaign: str) -> bool:
    """Whether some process runs a campaign. Only for those who hold the corpus: they would seem to run it themselves for a moment."""
    if not _NAME.fullmatch(campaign) or not (mark := _mark(corpus, campaign)).is_file():
        return False
    with mark.open("rb") as opened:
        return not _taken(opened.fileno(), fcntl.LOCK_SH)


def _taken(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""How the comparisons of campaigns ended, counted by side, backend and path.

A comparison is requested for every case on every backend of a campaign. It agrees or diverges, and is
completed; or it is inconclusive, or lost, or refused by the worker, or not supported. The last are counted
apart: the backend says before the run that it cannot express the case, or it refuses in the run what the
recorded support table (`difftest.records.support`) has.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np

from difftest.judge.capability import Lack
from difftest.records.columns import MEASUREMENTS, Columns
from difftest.records.observation import CANARIES_SINCE, LOST, REFUSED, UNSUPPORTED, in_short
from difftest.records.support import is_usual

COMPLETED = AGREE, DIVERGE = "agree", "diverge"
INCONCLUSIVE = "inconclusive"
MOST_COUNTED = 50
"""How many reasons are counted apart; a long campaign must not grow by an error message for each case."""

OTHER_REASONS = "other reasons"
ORACLE = "oracle"
GROUPED = (
    *("side", "backend", "path", "verdict", "outcome.status", "reason", "reason_kind"),
    *("fingerprints", "lacks", "canary"),
)
COUNTED = (*GROUPED, "schema", MEASUREMENTS, f"{MEASUREMENTS}.ratio", f"{MEASUREMENTS}.exact")
"""The columns of lines that `Comparisons.add` needs."""


class CountedFor(NamedTuple):
    """What a comparison is counted for."""

    side: str
    backend: str
    path: str = ""


class ComparisonEnding(NamedTuple):
    """What of a line says how its comparison ended. `reason` is in short, `canary` as in `Observation`."""

    verdict: str
    status: str = ""
    reason: str = ""
    fingerprints: tuple[str, ...] = ()
    lacks: tuple[Lack, ...] = ()
    canary: str = ""


@dataclass(slots=True)
class Counts:
    """How some comparisons ended: this is what these words mean everywhere.

    `diverged` is by fingerprint, and what did not complete by reason, in words without numbers. `refused`
    ones are what a worker could not run, and `lacking` ones what a framework refused in a run, although the
    support table does not say so; `unsupported` ones are
    what a backend cannot express, and what it refuses in a run as the table says. `canaries` are by what the
    canary showed (`difftest.judge.canary`), in the runs in which there was one.
    """

    agreed: int = 0
    diverged: Counter[str] = field(default_factory=Counter)
    inconclusive: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    lacking: Counter[str] = field(default_factory=Counter)
    unsupported: Counter[str] = field(default_factory=Counter)
    canaries: Counter[str] = field(default_factory=Counter)

    @property
    def completed(self) -> int:
        """How many agree or diverge."""
        return self.agreed + self.diverged.total()

    @property
    def judged(self) -> int:
        """How many were completed or inconclusive."""
        return self.completed + self.inconclusive.total()

    @property
    def requested(self) -> int:
        """How many the campaign could be expected to make: all but the unsupported ones."""
        return self.judged + self.lost.total() + self.not_run.total()

    @property
    def not_run(self) -> Counter[str]:
        """What was refused by a worker or by a framework."""
        return self.refused + self.lacking

    @property
    def compared_share(self) -> float:
        """The share of the requested ones that were judged, from 0 to 1; 0 where none was completed.

        What a framework lacks is left out: programs reach operators that nobody tried before. A limit of its
        own bounds it (`difftest.records.completeness.MOST_REFUSED`).
        """
        return self.judged / (self.requested - self.lacking.total()) if self.completed else 0.0

    @property
    def inconclusive_share(self) -> float:
        """The share of the judged ones that were inconclusive, from 0 to 1; 0 where none was judged."""
        return self.inconclusive.total() / self.judged if self.judged else 0.0

    @property
    def not_judged(self) -> str:
        """How many of the requested ones were not judged, in words, as `1 lost, 2 refused`; empty if none."""
        numbers = {"lost": self.lost.total(), "refused": self.not_run.total()}
        return ", ".join(f"{number:,} {ended}" for ended, number in numbers.items() if number)

    def add(self, backend: str, ended: ComparisonEnding, lines: int) -> None:
        """Counts some lines of a backend that ended alike."""
        if ended.canary:
            self.canaries[_bounded(self.canaries, ended.canary)] += lines
        if ended.verdict == AGREE:
            self.agreed += lines
        elif ended.verdict == DIVERGE:
            self.diverged[next(iter(ended.fingerprints), "")] += lines
        else:
            counter = self._counter(backend, ended)
            counter[_bounded(counter, ended.reason)] += lines

    def _counter(self, backend: str, ended: ComparisonEnding) -> Counter[str]:
        if ended.verdict == INCONCLUSIVE:
            return self.inconclusive
        if ended.verdict == REFUSED:
            return self.refused
        if ended.verdict != UNSUPPORTED:
            return self.lost
        usual = ended.status == UNSUPPORTED or is_usual(backend, ended.reason, ended.lacks)
        return self.unsupported if usual else self.lacking if ended.lacks else self.refused

    def include(self, other: "Counts") -> None:
        """Adds the counts of other comparisons."""
        for name in Counts.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def _bounded(counter: Counter[str], reason: str) -> str:
    """The reason, or the word for all others where a counter has many."""
    return reason if reason in counter or len(counter) < MOST_COUNTED else OTHER_REASONS


@dataclass(slots=True)
class Comparisons:
    """The counts of every side, backend and path.

    `ratios` are the greatest errors of the runs that agree, in units of the rounding noise, where there is an
    error.
    """

    places: dict[CountedFor, Counts] = field(default_factory=dict)
    ratios: list[float] = field(default_factory=list)

    def expect(self, side: str, backend: str) -> None:
        """Makes a backend one of those that are counted, so that it is there even if it has no line."""
        self.places.setdefault(CountedFor(side, backend), Counts())

    def add(self, lines: Columns, by: str = "path") -> None:
        """Counts lines of a campaign; the oracle's are no comparisons. `by` is the column of the path."""
        for values, number in lines.grouped(*(by if name == "path" else name for name in GROUPED)):
            side, backend, path, verdict, status, reason, kind, fingerprints, lacks, canary = values
            if verdict != ORACLE:
                shown = msgspec.json.decode(fingerprints, type=tuple[str, ...])
                lacking = msgspec.json.decode(lacks, type=tuple[Lack, ...])
                ended = ComparisonEnding(verdict, status, kind or in_short(reason), shown, lacking, canary)
                self.places.setdefault(CountedFor(side, backend, path), Counts()).add(backend, ended, number)
        watched = lines.texts("verdict").among({AGREE}) & (lines.numbers("schema") >= CANARIES_SINCE)
        self.ratios += _greatest(lines.where(watched))

    def include(self, other: "Comparisons") -> None:
        """Adds the counts of other comparisons."""
        for place, counts in other.places.items():
            self.places.setdefault(place, Counts()).include(counts)
        self.ratios += other.ratios

    @property
    def sides(self) -> dict[str, Counts]:
        """The counts by side."""
        return self._by(lambda place: place.side)

    @property
    def paths(self) -> dict[str, Counts]:
        """The counts by path."""
        return self._by(lambda place: place.path)

    @property
    def cells(self) -> dict[tuple[str, str], Counts]:
        """The counts by backend and path."""
        cells: dict[tuple[str, str], Counts] = {}
        for place in sorted(self.places):
            if place.backend and place.path:
                cells.setdefault((place.backend, place.path), Counts()).include(self.places[place])
        return cells

    def backends(self, side: str | None = None) -> dict[str, Counts]:
        """The counts by backend, of one side or of all."""
        return self._by(lambda place: place.backend if side in {None, place.side} else "")

    def _by(self, key: Callable[[CountedFor], str]) -> dict[str, Counts]:
        """The counts summed by what `key` makes of their places, sorted; without those where it is empty."""
        totals: dict[str, Counts] = {}
        for place in sorted(self.places):
            if name := key(place):
                totals.setdefault(name, Counts()).include(self.places[place])
        return totals


def _greatest(lines: Columns) -> list[float]:
    """The greatest ratio of each line, of the lines with an error."""
    counts = lines.numbers(MEASUREMENTS)
    of_line = np.repeat(np.arange(len(counts)), counts)
    rounds = ~lines.numbers(f"{MEASUREMENTS}.exact")
    greatest = np.zeros(len(counts))
    np.maximum.at(greatest, of_line[rounds], lines.numbers(f"{MEASUREMENTS}.ratio")[rounds])
    return [float(ratio) for ratio in greatest[greatest > 0.0]]


def missing(counts: Counts) -> list[tuple[str, str, int]]:
    """What requested comparisons lack a result, as (how they ended, reason, number); most frequent first."""
    ended = {LOST: counts.lost, REFUSED: counts.not_run, INCONCLUSIVE: counts.inconclusive}
    each = [(how, reason, number) for how, by in ended.items() for reason, number in by.items()]
    return sorted(each, key=lambda one: -one[2])

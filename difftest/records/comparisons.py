"""How the comparisons of campaigns ended, counted by side, backend and path.

A comparison is requested for every case on every backend of a campaign. It was completed, or inconclusive, or
lost, or refused by the worker, or the backend cannot express the case. The last are counted apart: no
campaign can run them.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from difftest.records.columns import Columns
from difftest.records.observation import LOST, REFUSED, UNSUPPORTED, Observation, in_short

COMPLETED = ("agree", "diverge")
INCONCLUSIVE = "inconclusive"
MOST_COUNTED = 50
"""How many reasons are counted apart; a long campaign must not grow by an error message for each case."""

OTHER_REASONS = "other reasons"
ORACLE = "oracle"
COUNTED = ("side", "backend", "path", "verdict", "outcome.status", "reason", "reason_kind")
"""The columns of lines that `Comparisons.add_columns` needs."""


class Place(NamedTuple):
    """What a comparison is counted for."""

    side: str
    backend: str
    path: str = ""


@dataclass(slots=True)
class Counts:
    """How some comparisons ended. All but `completed` are by reason, in words without numbers.

    `refused` ones are what a worker's packages could not run; `unsupported` ones are what a backend cannot
    express, and programs for which its framework lacks something.
    """

    completed: int = 0
    inconclusive: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    unsupported: Counter[str] = field(default_factory=Counter)

    @property
    def judged(self) -> int:
        """How many were completed or inconclusive."""
        return self.completed + self.inconclusive.total()

    @property
    def requested(self) -> int:
        """How many the campaign could be expected to make: all but the unsupported ones."""
        return self.judged + self.lost.total() + self.refused.total()

    @property
    def compared_share(self) -> float:
        """The share of the requested ones that were judged, from 0 to 1; 0 where none was completed."""
        return self.judged / self.requested if self.completed else 0.0

    @property
    def inconclusive_share(self) -> float:
        """The share of the judged ones that were inconclusive, from 0 to 1; 0 where none was judged."""
        return self.inconclusive.total() / self.judged if self.judged else 0.0

    @property
    def not_judged(self) -> str:
        """How many of the requested ones were not judged, in words, as `1 lost, 2 refused`; empty if none."""
        numbers = {"lost": self.lost.total(), "refused": self.refused.total()}
        return ", ".join(f"{number:,} {ended}" for ended, number in numbers.items() if number)

    def add(self, verdict: str, status: str, reason: str, lines: int = 1) -> None:
        """Counts some lines with one verdict, status of the ending, and reason in short."""
        if verdict in COMPLETED:
            self.completed += lines
            return
        kind = verdict if verdict != UNSUPPORTED or status != REFUSED else REFUSED
        reasons = {INCONCLUSIVE: self.inconclusive, REFUSED: self.refused, UNSUPPORTED: self.unsupported}
        counter = reasons.get(kind, self.lost)
        counter[reason if reason in counter or len(counter) < MOST_COUNTED else OTHER_REASONS] += lines

    def include(self, other: "Counts") -> None:
        """Adds the counts of other comparisons."""
        self.completed += other.completed
        self.inconclusive += other.inconclusive
        self.lost += other.lost
        self.refused += other.refused
        self.unsupported += other.unsupported


@dataclass(slots=True)
class Comparisons:
    """The counts of every side, backend and path."""

    places: dict[Place, Counts] = field(default_factory=dict)

    def expect(self, side: str, backend: str) -> None:
        """Makes a backend one of those that are counted, so that it is there even if it has no line."""
        self.places.setdefault(Place(side, backend), Counts())

    def add(self, observation: Observation) -> None:
        """Counts one line of a campaign; the oracle's are no comparisons."""
        if (verdict := observation.verdict) != ORACLE:
            place = Place(observation.side, observation.backend, observation.path)
            counts = self.places.setdefault(place, Counts())
            counts.add(verdict, observation.outcome.status, observation.reason_in_short)

    def add_columns(self, columns: Columns, chosen: npt.NDArray[np.bool_], by: str = "path") -> None:
        """Counts the chosen lines of some columns, among which are `COUNTED`.

        `by` is the column that counts as the path.
        """
        for values, lines in columns.grouped(chosen, *(by if name == "path" else name for name in COUNTED)):
            side, backend, path, verdict, status, reason, kind = values
            if verdict != ORACLE:
                counts = self.places.setdefault(Place(side, backend, path), Counts())
                counts.add(verdict, status, kind or in_short(reason), lines)

    def include(self, other: "Comparisons") -> None:
        """Adds the counts of other comparisons."""
        for place, counts in other.places.items():
            self.places.setdefault(place, Counts()).include(counts)

    @property
    def sides(self) -> dict[str, Counts]:
        """The counts by side."""
        return self._by(lambda place: place.side)

    @property
    def paths(self) -> dict[str, Counts]:
        """The counts by path."""
        return self._by(lambda place: place.path)

    def backends(self, side: str | None = None) -> dict[str, Counts]:
        """The counts by backend, of one side or of all."""
        return self._by(lambda place: place.backend if side in {None, place.side} else "")

    def _by(self, key: Callable[[Place], str]) -> dict[str, Counts]:
        """The counts summed by what `key` makes of their places, sorted; without those where it is empty."""
        totals: dict[str, Counts] = {}
        for place in sorted(self.places):
            if name := key(place):
                totals.setdefault(name, Counts()).include(self.places[place])
        return totals


def missing(counts: Counts) -> list[tuple[str, str, int]]:
    """What requested comparisons lack a result, as (how they ended, reason, number); most frequent first."""
    ended = {LOST: counts.lost, REFUSED: counts.refused, INCONCLUSIVE: counts.inconclusive}
    each = [(how, reason, number) for how, by in ended.items() for reason, number in by.items()]
    return sorted(each, key=lambda one: -one[2])

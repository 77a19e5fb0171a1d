"""Blind shares over the lines of campaigns: in which part of the cases a check could show nothing new.

`difftest.findings.blind` computes them for a case.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from difftest.records.columns import Columns

COUNTED = ("backend", "blind")
"""The columns of lines that `BlindShares.add` needs."""


class BlindShare(NamedTuple):
    """The part of a backend's cases, from 0 to 1, in which whatever a check reports would be called known."""

    backend: str
    check: str
    share: float
    cases: int

    @property
    def words(self) -> str:
        """Such as `1.5 % of 250 cases on xla_spmd, loss`."""
        return f"{100 * self.share:.1f} % of {self.cases:,} cases on {self.backend}, {self.check}"


@dataclass(slots=True)
class BlindShares:
    """The shares of many cases: by backend and check the sum of the cases' shares, and their number."""

    sums: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    cases: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def count(self, backend: str, shares: Mapping[str, float], cases: int = 1) -> None:
        """Counts equal cases with their share by check."""
        for check, share in shares.items():
            self.sums[backend, check] += share * cases
            self.cases[backend, check] += cases

    def include(self, other: "BlindShares") -> None:
        """Adds the shares of other cases."""
        for key, count in other.cases.items():
            self.sums[key] += other.sums[key]
            self.cases[key] += count

    def add(self, lines: Columns) -> None:
        """Counts lines of campaigns, among whose columns are `COUNTED`."""
        for (backend, text), number in lines.grouped(*COUNTED):
            self.count(backend, msgspec.json.decode(text, type=dict[str, float]), number)

    def rows(self) -> tuple[BlindShare, ...]:
        """Every backend and check that was counted, the greatest share first."""
        rows = (BlindShare(*key, self.sums[key] / count, count) for key, count in self.cases.items())
        return tuple(sorted(rows, key=lambda row: (-row.share, row.backend, row.check)))


def lines(rows: Iterable[BlindShare]) -> Iterator[str]:
    """A line for each row that is blind anywhere."""
    return (row.words for row in rows if row.share)

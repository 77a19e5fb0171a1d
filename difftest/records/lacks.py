"""The support table: what backends lack for operators of programs, counted over the lines of campaigns.

A missing capability is a row here and never a finding (`difftest.judge.capability`).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from difftest.judge.capability import Lack
from difftest.records.columns import Columns
from difftest.records.observation import Observation

COUNTED = ("backend", "dtype", "lacks")
"""The columns of lines that `SupportTable.add_columns` needs."""


class Row(NamedTuple):
    """What a backend lacks for an operator, and for how many programs of which dtypes."""

    operator: str
    backend: str
    reason: str
    overload: str
    dtypes: tuple[str, ...]
    programs: int


@dataclass(slots=True)
class SupportTable:
    """How many programs of each dtype a backend lacks something for, by backend and what it lacks."""

    counts: dict[tuple[str, Lack], Counter[str]] = field(default_factory=dict)

    def add(self, observation: Observation) -> None:
        """Counts one line of a campaign."""
        for lack in observation.lacks:
            self._count(observation.backend, lack, observation.dtype)

    def add_columns(self, columns: Columns, chosen: npt.NDArray[np.bool_]) -> None:
        """Counts the chosen lines of some columns, among which are `COUNTED`."""
        for (backend, dtype, lacks), lines in columns.grouped(chosen, *COUNTED):
            for lack in msgspec.json.decode(lacks, type=tuple[Lack, ...]):
                self._count(backend, lack, dtype, lines)

    def include(self, other: "SupportTable") -> None:
        """Adds the counts of other lines."""
        for key, dtypes in other.counts.items():
            self.counts.setdefault(key, Counter()).update(dtypes)

    def rows(self) -> Iterator[Row]:
        """A row for each operator, backend and reason, sorted."""
        for (backend, lack), dtypes in sorted(
            self.counts.items(), key=lambda item: (item[0][1].operator, item[0][0], item[0][1].reason)
        ):
            programs = dtypes.total()
            yield Row(lack.operator, backend, lack.reason, lack.overload, tuple(sorted(dtypes)), programs)

    def _count(self, backend: str, lack: Lack, dtype: str, lines: int = 1) -> None:
        self.counts.setdefault((backend, lack), Counter())[dtype] += lines

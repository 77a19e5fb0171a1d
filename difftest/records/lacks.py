"""The support table: what backends lack for operators of programs, counted over the lines of campaigns.

A missing capability is a row here and never a finding (`difftest.judge.capability`).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import msgspec

from difftest.judge.capability import Lack
from difftest.records.columns import Columns

COUNTED = ("backend", "dtype", "lacks")
"""The columns of lines that `SupportTable.add` needs."""


class LackRow(NamedTuple):
    """What a backend lacks for an operator, and for how many programs of which dtypes.

    `operator` is empty where chains did not say which of theirs it was; their rows are by overload then.
    `reason` and `overload` name everything that it lacks, each once.
    """

    operator: str
    backend: str
    reason: str
    overload: str
    dtypes: tuple[str, ...]
    programs: int

    @property
    def overloads(self) -> tuple[str, ...]:
        """The aten operators that it lacks."""
        return tuple(filter(None, self.overload.split(", ")))


@dataclass(slots=True)
class _Counted:
    """What is lacking in one row, and the number of programs by dtype."""

    lacks: set[Lack] = field(default_factory=set)
    dtypes: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class SupportTable:
    """What backends lack, in one row for an operator and a backend."""

    counted: dict[tuple[str, str, str], _Counted] = field(default_factory=dict)

    def add(self, lines: Columns) -> None:
        """Counts lines of campaigns, among whose columns are `COUNTED`.

        A line counts once for an operator, whatever the backend lacks for it.
        """
        for (backend, dtype, text), number in lines.grouped(*COUNTED):
            by_key: dict[tuple[str, str, str], set[Lack]] = {}
            for lack in msgspec.json.decode(text, type=tuple[Lack, ...]):
                key = (lack.operator, backend, "" if lack.operator else lack.overload)
                by_key.setdefault(key, set()).add(lack)
            for key, own in by_key.items():
                counted = self.counted.setdefault(key, _Counted())
                counted.lacks |= own
                counted.dtypes[dtype] += number

    def include(self, other: "SupportTable") -> None:
        """Adds the counts of other lines."""
        for key, counted in other.counted.items():
            own = self.counted.setdefault(key, _Counted())
            own.lacks |= counted.lacks
            own.dtypes.update(counted.dtypes)

    def rows(self) -> Iterator[LackRow]:
        """A row for each operator and backend, sorted."""
        for (operator, backend, _), counted in sorted(self.counted.items(), key=itemgetter(0)):
            reasons, overloads = (
                sorted({getattr(lack, name) for lack in counted.lacks} - {""})
                for name in ("reason", "overload")
            )
            yield LackRow(
                operator,
                backend,
                "; ".join(reasons),
                ", ".join(overloads),
                tuple(sorted(counted.dtypes)),
                counted.dtypes.total(),
            )

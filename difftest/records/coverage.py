"""What campaigns covered, counted over their lines: operators by direction, cut, dtype, regime and side.

A line says what its comparison covered (`difftest.records.covered`), and only of a comparison with a verdict.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from difftest.judge.reached import Names
from difftest.records.blind import COUNTED as BLIND
from difftest.records.blind import BlindShares
from difftest.records.columns import Columns

What: TypeAlias = Literal["forward", "backward", "entries", "differentiated"]
WHAT: tuple[What, ...] = ("forward", "backward", "entries", "differentiated")
"""The fields of `Covered` that are told apart by how operands were cut."""

DISPATCHED: tuple[What, ...] = ("forward", "backward")
"""Those of them that count what a framework dispatched."""

PREFIX = "covered."
OTHERS = ("rules", "lowered", "parts")
COUNTED = (*BLIND, "dtype", "regime", "side", *(f"{PREFIX}{name}" for name in (*WHAT, *OTHERS)))
"""The columns of lines that `Coverage.add` needs."""


class Place(NamedTuple):
    """Where something was compared."""

    dtype: str
    regime: str
    side: str


class ComparedWay(NamedTuple):
    """A way in which an operator was compared; `evenness` is how its operands were cut."""

    operator: str
    evenness: str
    dtype: str
    regime: str
    side: str


class CoveredPart(NamedTuple):
    """A building block, a feature or an option of training on one side; `kind` says which of them it is."""

    kind: str
    name: str
    side: str


@dataclass(slots=True)
class Coverage:
    """The number of comparisons of each cell by `What`, of each rule, kind of lowered node and part.

    `kernels` counts the operators that torch_xla itself dispatched, forward and backward. `ruled_by` and
    `lowered_by` are the backends that recorded rules and lowered nodes. `blind` is how much the known faults
    hide.
    """

    cells: dict[What, Counter[ComparedWay]] = field(
        default_factory=lambda: {what: Counter() for what in WHAT}
    )
    rules: Counter[str] = field(default_factory=Counter)
    lowered: Counter[str] = field(default_factory=Counter)
    kernels: Counter[str] = field(default_factory=Counter)
    parts: Counter[CoveredPart] = field(default_factory=Counter)
    ruled_by: set[str] = field(default_factory=set)
    lowered_by: set[str] = field(default_factory=set)
    blind: BlindShares = field(default_factory=BlindShares)

    def add(self, lines: Columns) -> None:
        """Counts lines of a campaign, among whose columns are `COUNTED`."""
        for what in WHAT:
            for (text, *place), number in lines.grouped(f"{PREFIX}{what}", *Place._fields):
                for evenness, own in msgspec.json.decode(text, type=dict[str, Names]).items():
                    self.cells[what].update({ComparedWay(name, evenness, *place): number for name in own})
        for (text, side), number in lines.grouped(f"{PREFIX}parts", "side"):
            for kind, own in msgspec.json.decode(text, type=dict[str, Names]).items():
                self.parts.update({CoveredPart(kind, name, side): number for name in own})
        self._add_by_backend(self.rules, self.ruled_by, lines, "rules")
        self._add_by_backend(self.lowered, self.lowered_by, lines, "lowered")
        self.blind.add(lines)
        lowered = lines.where(~lines.texts(f"{PREFIX}lowered").among({"[]"}))
        for what in DISPATCHED:
            for (text,), number in lowered.grouped(f"{PREFIX}{what}"):
                for own in msgspec.json.decode(text, type=dict[str, Names]).values():
                    self.kernels.update(dict.fromkeys(own, number))

    @staticmethod
    def _add_by_backend(counts: Counter[str], by: set[str], lines: Columns, column: str) -> None:
        for (text, backend), number in lines.grouped(f"{PREFIX}{column}", "backend"):
            for name in msgspec.json.decode(text, type=Names):
                counts[name] += number
                by.add(backend)

    def include(self, other: "Coverage") -> None:
        """Adds the counts of other lines."""
        for what in WHAT:
            self.cells[what].update(other.cells[what])
        self.rules.update(other.rules)
        self.lowered.update(other.lowered)
        self.kernels.update(other.kernels)
        self.parts.update(other.parts)
        self.ruled_by |= other.ruled_by
        self.lowered_by |= other.lowered_by
        self.blind.include(other.blind)

    def names(self, what: What, side: str = "", *, sharded: bool | None = None) -> frozenset[str]:
        """The names that were reached, on one side or any; `sharded`: with operands that are cut, or not."""
        return frozenset(
            cell.operator
            for cell in self.cells[what]
            if side in {"", cell.side} and sharded in {None, cell.evenness != "whole"}
        )

    def cut(self, what: What, side: str, evenness: str) -> frozenset[str]:
        """The names that were reached on a side with operands cut like this."""
        wanted = (evenness, side)
        return frozenset(cell.operator for cell in self.cells[what] if (cell.evenness, cell.side) == wanted)

    def sides(self) -> tuple[str, ...]:
        """The sides that reached something, sorted."""
        of_cells = {cell.side for what in WHAT for cell in self.cells[what]}
        return tuple(sorted(of_cells | {part.side for part in self.parts}))

    def parts_of(self, kind: str, side: str = "") -> frozenset[str]:
        """The names of one kind of parts that were compared, on one side or any."""
        return frozenset(part.name for part in self.parts if part.kind == kind and side in {"", part.side})

    def ruled(self) -> frozenset[str]:
        """The operators whose rules of DTensor were used."""
        return frozenset(rule.partition(" ")[0] for rule in self.rules)


def together(coverages: Iterable[Coverage]) -> Coverage:
    """What several campaigns covered together."""
    total = Coverage()
    for coverage in coverages:
        total.include(coverage)
    return total

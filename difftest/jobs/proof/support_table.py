"""Which backend can express which path, by asking the backends about generated cases.

Nothing is written by hand.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from difftest.campaign.campaign import BackendTraits
from difftest.cases.case import Case

SAMPLE = 200
"""How many cases the table is made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSupport:
    """One path on one backend: how many cases it supports, and why not the others, commonest first."""

    path: str
    backend: str
    supported: int
    cases: int
    reasons: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """`yes`, `no`, or the share of cases: 1% to 99%."""
        if self.supported == self.cases:
            return "yes"
        return f"{min(max(self.supported / self.cases, 0.01), 0.99):.0%}" if self.supported else "no"


def table(cases: Iterable[Case], backends: Mapping[str, BackendTraits]) -> list[PathSupport]:
    """A row for every path among `cases` and every backend."""
    by_path: dict[str, list[Case]] = {}
    for case in cases:
        by_path.setdefault(case.path, []).append(case)
    return [
        _row(path, same, name, backend)
        for path, same in sorted(by_path.items())
        for name, backend in backends.items()
    ]


def _row(path: str, cases: list[Case], name: str, backend: BackendTraits) -> PathSupport:
    reasons = [backend.unsupported(case) for case in cases]
    counted = Counter(reason for reason in reasons if reason)
    return PathSupport(
        path=path,
        backend=name,
        supported=reasons.count(None),
        cases=len(cases),
        reasons=tuple(reason for reason, _ in counted.most_common()),
    )


def markdown(rows: list[PathSupport]) -> str:
    """The table in Markdown: a row for each path, a column for each backend."""
    backends = list(dict.fromkeys(row.backend for row in rows))
    lines = [f"| path | {' | '.join(backends)} |", f"|---|{'---|' * len(backends)}"]
    for path in dict.fromkeys(row.path for row in rows):
        words = {row.backend: row.word for row in rows if row.path == path}
        lines.append(f"| {path} | {' | '.join(words[name] for name in backends)} |")
    return "\n".join(lines)

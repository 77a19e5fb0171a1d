"""A known fault that suddenly explains most of what is compared: the words of one fault may hide another.

The share of a backend's comparisons that one issue explains, and of the backend on a path, is held against
that of earlier nights. Where there are none, half of them are too many.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from difftest.records.chance import is_more_than
from difftest.records.comparisons import Comparisons, Counts

LEAST_BEFORE = 20
"""Of fewer comparisons the share in earlier nights says little."""

UNRECORDED = 0.3
"""The share that a fault may usually have where no earlier night says more."""

JUMP = 0.2
"""By how much a share may rise above the usual one. What chance explains beyond that counts as no jump."""


def jumps(
    now: Comparisons, before: Comparisons, explained: Mapping[str, str], never_worked: Mapping[str, str]
) -> list[str]:
    """Each issue whose share jumped, in words.

    `explained` has the issues of known findings by fingerprint. Those in `never_worked` are left out: they
    end every run.
    """
    issues = {name: issue for name, issue in explained.items() if name not in never_worked}
    cells, earlier = now.cells, before.cells
    messages = list[str]()
    for backend, counts in now.backends().items():
        whole = list(_jumps(backend, counts, before.backends().get(backend), issues))
        messages += whole or [
            message
            for (name, path), cell in cells.items()
            if name == backend
            for message in _jumps(f"{backend} on {path}", cell, earlier.get((name, path)), issues)
        ]
    return messages


def _jumps(subject: str, now: Counts, before: Counts | None, issues: Mapping[str, str]) -> Iterator[str]:
    usual = _hits(before, issues) if before and before.completed >= LEAST_BEFORE else None
    for issue, hits in _hits(now, issues).items():
        share = UNRECORDED if usual is None or not before else usual[issue] / before.completed
        if is_more_than(hits, now.completed, min(1.0, share + JUMP)):
            than = f"{share:.0%} in earlier nights" if usual is not None else f"at most {share + JUMP:.0%}"
            explained = f"{hits} of {now.completed} comparisons are the known fault {issue}"
            yield f"{subject}: {explained}, usually {than}. Its words may hide another fault"


def _hits(counts: Counts, issues: Mapping[str, str]) -> Counter[str]:
    hits = Counter[str]()
    for name, number in counts.diverged.items():
        if name in issues:
            hits[issues[name]] += number
    return hits

"""What was compared, by backend: how much was completed, and what was not tested, with the reasons."""

from typing import NamedTuple

from difftest.records.comparisons import Counts, missing
from difftest.records.completeness import MOST_REASONS
from reports.page import spoken
from reports.report import Report

TITLE = "What was compared"
NOTE = (
    "A case on a backend is one comparison. What a backend cannot express was not requested. "
    "These are the numbers of the last campaign."
)
ALL_SHOWN = "Known faults hide no new ones: in every case each check could report what is not known."


class Row(NamedTuple):
    """One backend, or a whole side where `backend` is empty.

    `share` of what was requested is done, in percent. `rest` is what was not completed or not tested.
    """

    title: str
    backend: str
    completed: int
    requested: int
    share: float
    rest: tuple[str, ...]


def rows(report: Report) -> list[Row]:
    """A row for each side and below it one for each of its backends."""
    return [
        _row(report, f"{side} side" if not backend else report.spoken(backend), backend, counts)
        for side, total in report.comparisons.sides.items()
        for backend, counts in (("", total), *report.comparisons.backends(side).items())
    ]


def blind(report: Report) -> str:
    """How much the known faults hide from the last campaign, in a sentence; empty where nothing says it."""
    coverage = report.frame.coverage.get(report.last_campaign)
    rows = coverage.blind.rows() if coverage else ()
    if not rows:
        return ""
    most = rows[0]
    if not most.share:
        return ALL_SHOWN
    where = f"{report.spoken(most.backend)}, {most.check}"
    share = f"{100 * most.share:.1f} % of {most.cases:,} cases ({where})"
    return f"Whatever is wrong counts as a known fault in at most {share}."


def _row(report: Report, title: str, backend: str, counts: Counts) -> Row:
    share = 100 * counts.completed / counts.requested if counts.requested else 0
    rest = _reasons(report, counts) if backend else _kinds(counts)
    return Row(title, backend, counts.completed, counts.requested, share, rest or ("nothing",))


def _kinds(counts: Counts) -> tuple[str, ...]:
    """How many ended in which way other than completed."""
    kinds = {
        "inconclusive": counts.inconclusive,
        "lost": counts.lost,
        "refused": counts.not_run,
        "not supported": counts.unsupported,
    }
    return tuple(f"{each.total():,} {name}" for name, each in kinds.items() if each)


def _reasons(report: Report, counts: Counts) -> tuple[str, ...]:
    """The most frequent reasons why something is missing or not supported, the missing first."""
    absent = missing(counts)
    unsupported = [("not supported", *counted) for counted in counts.unsupported.most_common()]
    shown = [*absent[:MOST_REASONS], *unsupported[:MOST_REASONS]]
    left = sum(number for _, _, number in (*absent[MOST_REASONS:], *unsupported[MOST_REASONS:]))
    words = [
        f"{number:,} {ended}: {spoken.sentence(report, spoken.reason(short))}"
        for ended, short, number in shown
    ]
    return (*words, *([f"{left:,} for other reasons"] if left else []))

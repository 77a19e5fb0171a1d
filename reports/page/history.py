"""The campaigns of a corpus night by night: causes, throughput and coverage, the last night first.

It counts causes, as the headline of the page does: several findings may have one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import pandas as pd

from difftest.findings.standing import Standing
from difftest.findings.triage import Status
from difftest.records.totals import totals
from reports.frame import cases_and_programs, compared_in
from reports.page import head
from reports.report import Report

MOST_MARKS = 14
"""How many nights a finding's line has marks of."""

SEEN, UNSEEN = "\N{BLACK CIRCLE}", "\N{WHITE CIRCLE}"
DAY = len("2026-01-05")
MOST_NIGHTS = 30
"""How many nights the page has; `table.parquet` has all."""

COLUMNS = (
    ("new", "causes that no earlier campaign showed"),
    ("need you", "causes it showed that are still unexplained today"),
    ("shown", "all causes it showed; a cause has one line among the findings above"),
    ("fixed", "causes that triage no longer found before the next campaign"),
    ("agree, %", "comparisons that agree"),
    ("cases", "cases and programs"),
    ("per hour", "cases and programs an hour, from the first to the last run"),
    ("operators", "torch's operators that it reached forward; a dash where that was not recorded"),
)
"""The columns of numbers with their meanings."""


class NightRow(NamedTuple):
    """One campaign: its name, when it began, and the numbers of `COLUMNS` with their lengths in percent."""

    campaign: str
    began: str
    numbers: tuple[str, ...]
    bars: tuple[float, ...]


class NightCurve(NamedTuple):
    """The causes of the nights as paths of SVG, first night first; `most` is the top of the drawing."""

    shown: str
    new: str
    most: str
    first: str
    last: str
    words: str


def drawn(rows: Sequence[NightRow]) -> NightCurve:
    """The curves of some rows of `nights`, of which there are at least two."""
    ordered = rows[::-1]
    new, shown = ([int(row.numbers[column].replace(",", "")) for row in ordered] for column in (0, 2))
    most = max(*shown, 1)
    first, last = ordered[0].began[:DAY], ordered[-1].began[:DAY]
    words = f"{shown[0]} causes on {first}, {shown[-1]} on {last}"
    return NightCurve(_path(shown, most), _path(new, most), str(most), first, last, words)


def _path(counts: Sequence[int], most: int) -> str:
    """A line over the width of the drawing, which is 1000 by 120."""
    places = [(1000 * at / (len(counts) - 1), 115 - 110 * count / most) for at, count in enumerate(counts)]
    return "M" + "L".join(f"{across:.0f} {down:.1f}" for across, down in places)


def marks(report: Report) -> Mapping[str, str]:
    """By fingerprint, a mark for each of the last nights: whether it was seen there; the last one last.

    Empty where there is only one night.
    """
    names = [str(name) for name in report.frame.began.index][-MOST_MARKS:]
    if len(names) == 1:
        return {}
    own = report.frame.runs[report.frame.runs["campaign"].isin(names)].dropna(subset=["fingerprint"])
    nights_of = own.groupby("fingerprint", observed=True)["campaign"].agg(set)
    return {
        str(fingerprint): "".join(SEEN if name in shown_in else UNSEEN for name in names)
        for fingerprint, shown_in in nights_of.items()
    }


def nights(report: Report) -> list[NightRow]:
    """The last campaigns, the last one first; the greatest number of a column has a bar of 100 %."""
    began = report.frame.began
    unknown = {cause.finding.fingerprint for cause in report.groups[Standing.UNKNOWN]}
    cause_of = {f.fingerprint: cause.finding.fingerprint for cause in report.causes for f in cause.findings}
    fixed = list(_fixed(report))
    by_campaign = {str(name): own for name, own in report.frame.runs.groupby("campaign", observed=True)}
    rows, earlier = list[tuple[float | None, ...]](), set[str]()
    for number, name in enumerate(map(str, began.index)):
        own = by_campaign.get(name, report.frame.runs.iloc[:0])
        fingerprints = own["fingerprint"].dropna().astype("str").unique()
        shown = {cause_of.get(fingerprint, fingerprint) for fingerprint in fingerprints}
        until = began.iloc[number + 1] if number + 1 < len(began) else None
        counts = (len(shown - earlier), len(shown & unknown), len(shown))
        # How many operators a campaign reached forward; None where it recorded no coverage
        coverage = report.frame.coverage.get(name)
        reached = next(totals(coverage)).reached if coverage else 0
        rows.append((*counts, _between(fixed, began.iloc[number], until), *_work(own), reached or None))
        earlier |= shown
    most = [max((row[column] or 0 for row in rows), default=0) for column in range(len(COLUMNS))]
    each = [
        NightRow(str(name), f"{at:%Y-%m-%d %H:%M}", *_shown(row, most))
        for (name, at), row in zip(began.items(), rows, strict=True)
    ]
    return each[::-1][:MOST_NIGHTS]


def _shown(row: tuple[float | None, ...], most: list[float]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The numbers of a row as texts, empty where there is none, and the lengths of their bars."""
    bars = tuple(100 * (one or 0) / top if top else 0.0 for one, top in zip(row, most, strict=True))
    return tuple("" if value is None else f"{value:,.0f}" for value in row), bars


def _fixed(report: Report) -> Iterator[str]:
    """For each cause of which a triage found nothing any more, when that ran last."""
    for cause in report.groups[Standing.FIXED]:
        if checked := [finding.checked for finding in cause.findings if finding.status == Status.FIXED]:
            yield max(checked)


def _between(moments: Iterable[str], since: datetime, until: datetime | None) -> int:
    """How many ISO 8601 moments are in an interval, which has no end where `until` is None."""
    times = pd.to_datetime(pd.Series(list(moments), dtype="str"), utc=True, format="ISO8601", errors="coerce")
    return int(((times >= since) & (True if until is None else times < until)).sum())


def _work(runs: pd.DataFrame) -> tuple[float | None, ...]:
    """The share of comparisons that agree in percent, the number of cases, and cases an hour."""
    compared, cases, seconds = compared_in(runs), sum(cases_and_programs(runs)), head.elapsed(runs)
    agree = 100 * float((compared["verdict"] == "agree").mean()) if len(compared) else None
    return agree, cases, 3600 * cases / seconds if seconds else None

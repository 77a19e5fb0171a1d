"""How far off every run was: its greatest error beside the rounding noise, a strip for each backend."""

import math
from typing import Any, NamedTuple

import pandas as pd

from difftest.findings.standing import Standing, standing
from difftest.judge.noise import FLOORS_MOST, THRESHOLD
from difftest.records.comparisons import ORACLE
from reports import cells, tables
from reports.report import Report

LEAST, MOST = 0.1, 1e15
"""The ends of the axis at most, in units of the rounding noise; what is beyond them is drawn at the end."""

LEAST_END = 1e3
"""The scale goes on to here at least."""

MOST_PLAIN = 3
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
"""Powers of ten above so many are shown as powers."""

SCALE_ENDS_AT, INFINITE_AT = 930, 980
"""Where on a strip, in thousandths of its width, the logarithmic scale ends and infinite errors are."""

ROWS, ROW_PIXELS = 5, 6
"""Dots of nearly equal errors lie in so many rows, so that they do not hide one another."""

KINDS = ("doubtful", "known", "unknown")
"""Classes of runs beyond the threshold, those that need a reader last: what is drawn last is on top."""

MOST_MARKS = 400
"""How many marks have a tooltip and a link of their own; the others are drawn alone."""


SHOWN = ["run", "case", "backend", "path", "mesh", "dtype", "status", "fingerprint"]
"""The columns of runs that strips are made of."""


class Mark(NamedTuple):
    """Runs beyond the threshold that are of one finding and at one place.

    It has the class that colours them, their place, their words and their finding. Where `words` are empty it
    has no finding, and stands for all such runs of its class at that place.
    """

    kind: str
    across: int
    words: str = ""
    link: str = ""


class Strip(NamedTuple):
    """The runs of one backend: dots within the threshold as an SVG path, and marks beyond it.

    `words` say how many runs are drawn and how many are not.
    """

    title: str
    dots: str
    marks: tuple[Mark, ...]
    words: str


def of_runs(report: Report) -> dict[str, Any]:
    """The strips of the last campaign and their axis; no strips where nothing was measured."""
    own = (report.frame.runs["campaign"] == report.last_campaign) & (report.frame.runs["side"] != ORACLE)
    chosen = own & (report.frame.runs["purpose"] == "campaign")
    greatest = tables.greatest_of_runs(report.frame, ["run"], chosen.to_numpy()).set_index("run")["ratio"]
    explained = {f.fingerprint for f in report.findings if standing(f) is not Standing.UNKNOWN}
    runs = report.frame.runs.loc[chosen, SHOWN]
    kinds = [
        "doubtful" if pd.isna(f) else "known" if f in explained else "unknown" for f in runs["fingerprint"]
    ]
    runs = runs.assign(kind=kinds, ratio=runs["run"].map(greatest))
    scale = _RatioScale(max(greatest[greatest < MOST].tolist(), default=0.0))
    measured = [
        (report.spoken(str(backend)), each)
        for backend, each in runs.groupby("backend", observed=True)
        if each["ratio"].notna().any()
    ]
    strips = [_strip(title, each, scale, MOST_MARKS // len(measured)) for title, each in measured]
    return {
        "strips": strips,
        "ticks": scale.ticks(),
        "threshold": scale.across(THRESHOLD),
        "height": ROWS * ROW_PIXELS,
    }


class _RatioScale:
    """A logarithmic axis from `LEAST` to the power of ten at or above the greatest finite error."""

    def __init__(self, most: float) -> None:
        self._least = math.log10(LEAST)
        self._most = math.ceil(math.log10(min(max(most, LEAST_END), MOST)))

    def across(self, ratio: float) -> int:
        """The place of an error on a strip, in thousandths of its width."""
        if ratio >= FLOORS_MOST:
            return INFINITE_AT
        size = min(math.log10(max(ratio, LEAST)), self._most)
        return round(SCALE_ENDS_AT * (size - self._least) / (self._most - self._least))

    def ticks(self) -> list[tuple[int, str]]:
        """Places and labels of the axis: powers of ten, at most seven of them, and infinity."""
        step = math.ceil((self._most - self._least) / 6)
        powers = range(round(self._least), self._most + 1, step)
        labels = [(self.across(10.0**power), _power(power)) for power in powers]
        return [*labels, (INFINITE_AT, "\N{INFINITY}")]


def _power(power: int) -> str:
    """A power of ten as axes have it: `0.1`, `1,000`, `10\N{SUPERSCRIPT SEVEN}`."""
    return f"{10.0**power:,g}" if power <= MOST_PLAIN else "10" + str(power).translate(SUPERSCRIPTS)


def _strip(title: str, runs: pd.DataFrame, scale: _RatioScale, most: int) -> Strip:
    """The strip of one backend, with at most so many marks that have words."""
    measured = runs[runs["ratio"].notna()]
    within = measured[measured["ratio"] <= THRESHOLD]
    places = zip(within["run"].tolist(), within["ratio"].tolist(), strict=True)
    dots = sorted({(scale.across(ratio), run % ROWS) for run, ratio in places})
    path = "".join(f"M{across} {ROW_PIXELS * row + ROW_PIXELS // 2}h0" for across, row in dots)
    beyond = measured[measured["ratio"] > THRESHOLD].sort_values("ratio", ascending=False, kind="stable")
    return Strip(title, path, _marks(beyond, scale, most), _words(runs, len(measured), len(beyond)))


def _marks(beyond: pd.DataFrame, scale: _RatioScale, most: int) -> tuple[Mark, ...]:
    """The marks of runs that are sorted by their error, in the order in which they are drawn.

    At most `most` have words: those that nobody has explained first, and then the greatest.
    """
    links = beyond["fingerprint"].astype("object").fillna("")
    runs = beyond.assign(across=beyond["ratio"].map(scale.across), link=links)
    together: dict[tuple[str, int, str], list[Any]] = {}
    for row in runs.itertuples():
        together.setdefault((row.kind, row.across, row.link), []).append(row)
    marks = [_mark(rows[0], len(rows)) for rows in together.values()]
    marks.sort(key=lambda mark: -KINDS.index(mark.kind))
    alone = dict.fromkeys(Mark(mark.kind, mark.across) for mark in marks[most:])
    return (*reversed(alone), *reversed(marks[:most]))


def _mark(row: Any, runs: int) -> Mark:  # noqa: ANN401  a row of itertuples
    """The mark of so many runs; `row` is that with the greatest error."""
    size = f"{cells.shown(row.ratio)} x the rounding noise"
    others = f"{runs - 1:,} more run{'s' * (runs > 2)}{' of this finding' * bool(row.link)}"  # noqa: PLR2004
    more = f"; {others} here" if runs > 1 else ""
    words = f"case {row.case}, {row.path}, {row.mesh}, {row.dtype}: {size}{more}"
    return Mark(row.kind, row.across, words, row.link)


def _words(runs: pd.DataFrame, measured: int, beyond: int) -> str:
    """How many runs are drawn, how many of these are beyond the threshold, and how many are not drawn."""
    failed = int((runs["status"] != "finished").sum())
    others = {"failed": failed, "exact": len(runs) - measured - failed}
    rest = [f"{number:,} {why}" for why, number in others.items() if number > 0]
    drawn = f"{measured:,} drawn, {f'{beyond:,}' if beyond else 'none'} beyond"
    return drawn + (f"; not drawn: {', '.join(rest)}" if rest else "")

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

MOST_MARKS = 400
"""How many runs beyond the threshold have a tooltip and a link of their own; the others have a mark alone."""


class Mark(NamedTuple):
    """One run beyond the threshold: the class that colours it, its place, its words and its finding."""

    kind: str
    across: int
    words: str
    link: str


class Strip(NamedTuple):
    """The runs of one backend: dots within the threshold as an SVG path, and marks beyond it.

    `more` is the path of marks without words, and `words` say how many runs are drawn and how many are not.
    """

    title: str
    dots: str
    marks: tuple[Mark, ...]
    more: str
    words: str


def of_runs(report: Report) -> dict[str, Any]:
    """The strips of the last campaign and their axis; no strips where nothing was measured."""
    own = (report.frame.runs["campaign"] == report.last_campaign) & (report.frame.runs["side"] != ORACLE)
    chosen = own & (report.frame.runs["purpose"] == "campaign")
    greatest = tables.greatest_of_runs(report.frame, ["run"], chosen.to_numpy()).set_index("run")["ratio"]
    explained = {f.fingerprint for f in report.findings if standing(f) is not Standing.UNKNOWN}
    runs = report.frame.runs[chosen]
    kinds = [
        "doubtful" if pd.isna(f) else "known" if f in explained else "unknown" for f in runs["fingerprint"]
    ]
    runs = runs.assign(kind=kinds, ratio=runs["run"].map(greatest))
    scale = _Scale(max(greatest[greatest < MOST].tolist(), default=0.0))
    strips, left = list[Strip](), MOST_MARKS
    for backend, each in runs.groupby("backend", observed=True):
        if each["ratio"].notna().any():
            strips.append(_strip(report.spoken(str(backend)), each, scale, left))
            left -= len(strips[-1].marks)
    return {
        "strips": strips,
        "ticks": scale.ticks(),
        "threshold": scale.across(THRESHOLD),
        "height": ROWS * ROW_PIXELS,
    }


class _Scale:
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


def _strip(title: str, runs: pd.DataFrame, scale: _Scale, most: int) -> Strip:
    """The strip of one backend, with at most so many marks that have words."""
    measured = runs[runs["ratio"].notna()]
    within = measured[measured["ratio"] <= THRESHOLD]
    places = zip(within["run"].tolist(), within["ratio"].tolist(), strict=True)
    dots = sorted({(scale.across(ratio), run % ROWS) for run, ratio in places})
    path = "".join(f"M{across} {ROW_PIXELS * row + ROW_PIXELS // 2}h0" for across, row in dots)
    beyond = measured[measured["ratio"] > THRESHOLD].sort_values("ratio", ascending=False, kind="stable")
    marks = tuple(_mark(row, scale) for row in beyond.head(most).itertuples())
    rest = sorted({scale.across(ratio) for ratio in beyond["ratio"].tolist()[most:]})
    more = "".join(f"M{across} 0v{ROWS * ROW_PIXELS}" for across in rest)
    return Strip(title, path, marks, more, _words(runs, len(measured), len(beyond)))


def _mark(row: Any, scale: _Scale) -> Mark:  # noqa: ANN401  a row of itertuples
    size = f"{cells.shown(row.ratio)} x the rounding noise"
    words = f"case {row.case}, {row.path}, {row.mesh}, {row.dtype}: {size}"
    return Mark(row.kind, scale.across(row.ratio), words, "" if pd.isna(row.fingerprint) else row.fingerprint)


def _words(runs: pd.DataFrame, measured: int, beyond: int) -> str:
    """How many runs are drawn, how many of these are beyond the threshold, and how many are not drawn."""
    failed = int((runs["status"] != "finished").sum())
    others = {"failed": failed, "exact": len(runs) - measured - failed}
    rest = [f"{number:,} {why}" for why, number in others.items() if number > 0]
    drawn = f"{measured:,} drawn, {f'{beyond:,}' if beyond else 'none'} beyond"
    return drawn + (f"; not drawn: {', '.join(rest)}" if rest else "")

"""The top of the page: what to do, the counts behind it, and what the campaign ran on."""

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from difftest.findings.standing import Standing
from difftest.records.comparisons import ORACLE
from reports.frame import compared_in
from reports.report import Report, environment_of, merged

SHOWN_PACKAGES = ("torch", "torch_xla", "torchax", "jax")
SHOWN_DEVICES = ("device", "gpu")
"""What the first line names of the environment."""


class Count(NamedTuple):
    """A number at the top of the page: what it counts, how it is coloured, and where it leads."""

    number: str
    label: str
    kind: str = ""
    link: str = ""


def counts(report: Report) -> list[Count]:
    """The numbers in the order in which a reader wants them."""
    groups = {standing: len(causes) for standing, causes in report.groups.items()}
    need = groups[Standing.UNKNOWN]
    number = groups[Standing.LEFT_OPEN]
    return [
        Count(str(need), "unknown, to look at", "unknown" if need else "", "#need"),
        Count(str(groups[Standing.UNDERSTOOD]), "understood, not reported", "", "#understood"),
        Count(str(groups[Standing.REPORTED]), "reported upstream", "", "#known"),
        Count(str(groups[Standing.FIXED]), "fixed", "", "#known"),
        Count(str(groups[Standing.UNSTABLE]), "unstable", "", "#known"),
        *([Count(str(number), "left open by torch", "", "#known")] if number else []),
        *_compared(report),
        *_work(report),
    ]


def _compared(report: Report) -> list[Count]:
    """How many comparisons agree, and how many each side completed of those requested."""
    compared = compared_in(report.runs)
    agree = int((compared["verdict"] == "agree").sum())
    sides = [
        Count(f"{side.completed:,} / {side.requested:,}", f"completed, {name} side", "", "#compared")
        for name, side in report.comparisons.sides.items()
    ]
    kind = "agree" if agree and not report.conclusion.opening else ""
    return [Count(f"{agree:,} / {len(compared):,}", "comparisons agree", kind, "#where"), *sides]


def _work(report: Report) -> list[Count]:
    """How many cases and programs ran, and how long that took."""
    runs = report.runs
    cases, more = report.sizes
    seconds = elapsed(runs)
    return [
        Count(f"{cases:,} + {more:,}", "cases + programs")
        if cases and more
        else Count(f"{more or cases:,}", plural("program" if more else "case", more or cases)),
        Count(f"{len(runs):,}", plural("run", len(runs))),
        *([] if seconds is None else [Count(duration(seconds), "from first to last run")]),
    ]


def plural(what: str, number: int) -> str:
    """The word for a number of things."""
    return f"{what}{'s' * (number != 1)}"


def elapsed(runs: pd.DataFrame) -> float | None:
    """Seconds from the start of the first run to the end of the last; None where none says when it began."""
    ended = (runs["started"] + pd.to_timedelta(runs["seconds"].clip(lower=0), unit="s")).max()
    return None if pd.isna(ended) else float((ended - runs["started"].min()).total_seconds())


def duration(seconds: float) -> str:
    """Seconds in the two largest units: `8 min`, `2 h 5 min`."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"  # noqa: PLR2004


def when(report: Report) -> str:
    """The campaign's name and the time of its first run."""
    began = report.frame.began.get(report.last_campaign)
    at = f", {began:%Y-%m-%d %H:%M} UTC" if began is not None else ""
    return f"{report.last_campaign}{at}" if report.last_campaign else ""


def versions(report: Report) -> str:
    """The packages and the devices of the campaign in one line; empty where no run reported any."""
    reported = environment_of(report.runs)
    values: dict[str, list[str]] = {}
    for key, value, _ in merged(reported):
        values.setdefault(key, []).append(value)
    shown = [f"{key} {' / '.join(values[key])}" for key in SHOWN_PACKAGES if key in values]
    shown += [f"{side} side on {', '.join(names)}" for side, names in _devices(report, reported).items()]
    return " · ".join(shown)


def _devices(report: Report, reported: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """The kinds of devices of each side."""
    sides = report.runs.drop_duplicates("backend")[["side", "backend"]].astype("str")
    devices: dict[str, set[str]] = {}
    for side, backend in sides[sides["side"] != ORACLE].itertuples(index=False):
        own = reported.get(backend, {})
        kinds = (own[key] for key in SHOWN_DEVICES if key in own)
        devices.setdefault(side, set()).update(kind.upper() if kind.islower() else kind for kind in kinds)
    return {side: sorted(names) for side, names in sorted(devices.items()) if names}

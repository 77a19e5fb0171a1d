"""`summary.md`: the findings and the agreement, small enough for a job summary or an issue.

Each block of lines has a share of `GREATEST_BYTES`. Lines that do not fit are counted in a last line, never
dropped silently.
"""

import re
from collections.abc import Iterable, Sequence
from typing import BinaryIO

import pandas as pd

from difftest.findings import standing
from difftest.findings.causes import Cause
from difftest.ground.printable import printable
from difftest.records.finding import Finding
from reports import cells, tables
from reports.page import spoken
from reports.report import Report

FILENAME = "summary.md"
GREATEST_BYTES = 2**20
GREATEST_CELL = 200
GREATEST_DETAIL = 2000
_SHARES = {
    "head": 0.1,
    "comparisons": 0.05,
    "findings": 0.3,
    "lacks": 0.1,
    "coverage": 0.05,
    "agreement": 0.1,
    "ratios": 0.1,
    "details": 0.15,
}
_TABLES = {tables.LACKING: "lacks", tables.AGREEMENT: "agreement", tables.GREATEST_ERROR: "ratios"}
"""The titles of the tables of verdicts and errors that are here, with their shares."""

_SPECIAL = re.compile(r"([\\`*\[\]|~#])|(?<!\w)(_)|(_)(?!\w)")
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def render(report: Report, file: BinaryIO) -> None:
    """Writes what to do, findings, agreement, greatest errors and details, in at most `GREATEST_BYTES`.

    Findings that need somebody come first. Backends, paths and reasons are called as on the page.
    """

    def lines(table: pd.DataFrame) -> list[str]:
        return _lines(spoken.in_words(report, table))

    causes = [cause for group in report.groups.values() for cause in group]
    campaign = f"Last campaign: {cell(report.last_campaign)}. " if report.last_campaign else ""
    generated = f"{campaign}Generated {report.generated:%Y-%m-%d %H:%M} UTC."
    verdict = report.verdict.removeprefix(report.conclusion.opening).lstrip()
    head = [
        f"# {cell(report.title)}",
        "",
        f"**{sentence(report.headline)}** {cell(verdict)}",
        "",
    ]
    points = [*report.incomplete, *report.conclusion.excused]
    head += [f"* {sentence(point)}" for point in points] + [""] * bool(points)
    head += [generated]
    blocks = (
        _fitting("head", head),
        *_block(tables.COMPARED, "comparisons", lines(tables.completeness(report.comparisons))),
        *_block("Findings", "findings", _lines(_findings(report, causes))),
        *(
            block
            for title, share in _TABLES.items()
            for section in report.sections
            if section.title == title
            for block in _block(title, share, lines(section.table))
        ),
        *(
            block
            for section in report.covered
            for block in _block(section.title, "coverage", lines(section.table))
        ),
        *_block("Details", "details", [_detail(cause.finding) for cause in causes]),
    )
    file.write(printable("\n\n".join(blocks)).encode() + b"\n")


def cell(value: object) -> str:
    """`value` as the text of one table cell: one line in which nothing is markup."""
    return sentence(value, GREATEST_CELL)


def sentence(value: object, greatest: int = GREATEST_DETAIL) -> str:
    """`value` as one line of at most so many characters, in which nothing is markup."""
    text = " ".join(cells.shown(value).split())
    text = text if len(text) <= greatest else text[: greatest - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", text.translate(_HTML))


def _findings(report: Report, causes: Sequence[Cause]) -> pd.DataFrame:
    """A row a cause, with the words of the page for what it is and what has become of it."""
    table = tables.by_cause(causes)
    columns = {
        "finding": [report.of(cause.finding).title for cause in causes],
        "backend": [", ".join(map(report.spoken, cause.backends)) for cause in causes],
        "standing": [standing.in_words(cause) for cause in causes],
        "new": ["new" if report.has_new(cause) else "" for cause in causes],
        **{name: table[name] for name in ("hits", "blame", "layer", "upstream", "fingerprint")},
    }
    return pd.DataFrame(columns | ({"operators": table["operators"]} if "operators" in table else {}))


def _block(title: str, share: str, lines: list[str]) -> tuple[str, ...]:
    return (f"## {title}", _fitting(share, lines)) if lines else ()


def _lines(table: pd.DataFrame) -> list[str]:
    if table.empty:
        return []
    headings = cells.headings(table)
    above = [
        _row(name for name, _ in headings),
        _row(("---:" if number else "---") for _, number in headings),
    ]
    return above + [_row(map(cell, row)) for row in cells.rows(table)]


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _fitting(share: str, lines: list[str]) -> str:
    """As many of `lines` as the share allows, and a line that counts the others."""
    left = int(_SHARES[share] * GREATEST_BYTES)
    for number, line in enumerate(lines):
        left -= len(line.encode()) + 1
        if left < 0:
            return "\n".join([*lines[:number], "", f"{len(lines) - number:,} more: see report.html"])
    return "\n".join(lines)


def _detail(finding: Finding) -> str:
    """A finding's detail in a fence longer than any in it."""
    text = cells.cut(
        finding.divergence.detail or finding.divergence.log, GREATEST_DETAIL, "see finding.json"
    ).strip("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"### {cell(finding.fingerprint)}\n\n{fence}text\n{text}\n{fence}\n" if text else ""

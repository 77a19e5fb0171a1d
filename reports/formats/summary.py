"""`summary.json`: the report's numbers for programs. Strict JSON: a number that JSON cannot hold is null."""

import json
from typing import Any, BinaryIO
from urllib.parse import quote

import msgspec

from difftest.records.completeness import described
from difftest.records.corpus import CORPUS
from difftest.records.coverage import together
from difftest.records.definition import named_seed
from difftest.records.finding import Finding
from reports import covered, tables
from reports.frame import Table, cases_and_programs
from reports.report import Report

FILENAME = "summary.json"
SCHEMA = 1


def render(report: Report, file: BinaryIO) -> None:
    """Writes campaigns, cases, runs, comparisons by verdict, backend and path, findings and versions.

    `seeds` are those in the names of its campaigns. `programs` are those of the `cases` that are programs of
    operators. `runs` counts every run, the other numbers only comparisons of campaigns. `sides` tells how
    those of the last campaign ended, and `incomplete` of what it did not compare enough. `headline` is that
    of the page. `coverage` is how much all campaigns reached.
    """
    t = report.frame
    compared, (cases, programs) = t.compared, cases_and_programs(t.runs)
    summary = {
        "schema": SCHEMA,
        "title": report.title,
        "generated": report.generated.isoformat(timespec="seconds"),
        "verdict": report.verdict,
        "headline": report.headline,
        **report.conclusion.described(),
        "sides": described(report.comparisons),
        "campaigns": _campaigns(t),
        "seeds": sorted({seed for name in t.comparisons if (seed := named_seed(name)) is not None}),
        "cases": cases + programs,
        "programs": programs,
        "comparisons": len(compared),
        "runs": len(t.runs),
        "verdicts": {verdict: int((compared["verdict"] == verdict).sum()) for verdict in tables.VERDICTS},
        "coverage": json.loads(
            covered.summary(together(t.coverage.values()), report.entries).to_json(orient="records")
        ),
        "backends": _counts(t, "backend"),
        "paths": _counts(t, "path"),
        "findings": [_finding(finding, new=finding.fingerprint in report.new) for finding in report.findings],
        "environment": report.environment,
    }
    file.write(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")


def _campaigns(t: Table) -> list[dict[str, Any]]:
    """Every campaign by name, also one without a single run."""
    by = t.runs.groupby("campaign", observed=True)
    started, counts = by["started"].min().dropna(), by.size()
    return [
        {
            "campaign": name,
            "started": None if (at := started.get(name, t.began.get(name))) is None else at.isoformat(),
            "runs": int(counts.get(name, 0)),
        }
        for name in sorted(t.comparisons)
    ]


def _counts(t: Table, by: str) -> dict[str, dict[str, int]]:
    table = tables.verdict_counts(t, (by,)).set_index(by)
    return {
        str(name): {str(column): int(count) for column, count in row.items()}
        for name, row in table.iterrows()
    }


def _finding(finding: Finding, *, new: bool) -> dict[str, Any]:
    file = f"{CORPUS}/{quote(finding.fingerprint, safe='')}/case.json"
    more = {"operators": list(finding.operators)} if finding.operators else {}
    return tables.row(finding) | more | {"path": finding.divergence.path, "new": new, "case_file": file}

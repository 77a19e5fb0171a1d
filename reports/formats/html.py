"""`report.html`: one page that needs nothing else, with everything escaped and no script.

The markup is in `reports/templates/report.html`; here is only what it shows.
"""

from typing import Any
from urllib.parse import quote

import pandas as pd

from difftest.records.finding import Finding
from reports import cells, tables
from reports.page.arbiter import arbitrated
from reports.page.template import template
from reports.report import CORPUS, Report, merged

FILENAME = "report.html"
GREATEST_TEXT = 20_000
ANSWERS = ("disappears", "stays", "changes")
"""Of an ablation; why others could not be told is in `finding.json`."""


def render(report: Report) -> bytes:
    """The page."""
    arbiter = arbitrated(report.frame, report.findings)
    return (
        template(FILENAME)
        .render(
            report=report,
            generated=f"{report.generated:%Y-%m-%d %H:%M} UTC",
            campaigns=sorted(tables.runs(report.frame)["campaign"].dropna().astype("str").unique()),
            environment=merged(report.environment),
            findings=[
                _finding(f, arbiter.get(f.fingerprint, ""), new=f.fingerprint in report.new)
                for f in report.findings
            ],
            matrix=_matrix(report.frame),
            sections=[
                (s.title, s.note, cells.headings(s.table), cells.rows(s.table))
                for s in tables.sections(report.frame)
            ],
        )
        .encode()
    )


def _finding(finding: Finding, arbiter: str, *, new: bool) -> dict[str, Any]:
    """What the page says of one finding, and the `arbiter` of it; facts without a value are left out."""
    agreed, tried = finding.stable
    again, times = finding.returned
    where = f"step {finding.divergence.step}, {finding.divergence.stage}" + (
        f", {finding.divergence.tensor}" if finding.divergence.tensor else ""
    )
    facts = {
        "blame": finding.blame,
        "known upstream": finding.upstream,
        "hits": cells.shown(finding.hits),
        "where": where,
        "greatest error": ""
        if finding.divergence.ratio is None
        else f"{cells.shown(finding.divergence.ratio)} x the noise floor",
        "beside the other side": arbiter,
        "came back": f"{agreed} of {tried} times" if tried else "",
        "triage": f"{finding.status}, {again} of {times} times, {cells.moment(finding.checked)}"
        if finding.status
        else "",
        "needs": "; ".join(finding.conditions),
        "first wrong at": "; ".join(finding.located),
        **{f"{answer} when": _when(finding, answer) for answer in ANSWERS},
        "seen": " to ".join(
            dict.fromkeys(cells.moment(seen) for seen in (finding.first_seen, finding.last_seen) if seen)
        ),
        **finding.evidence,
    }
    return {
        "it": finding,
        "new": new,
        "paths": tables.paths(finding),
        "facts": {name: value for name, value in facts.items() if value},
        "detail": cells.cut(finding.divergence.detail, GREATEST_TEXT, "see finding.json"),
        "log": cells.cut(finding.divergence.log, GREATEST_TEXT, "see finding.json"),
        "folder": f"{CORPUS}/{quote(finding.fingerprint, safe='')}",
    }


def _when(finding: Finding, answer: str) -> str:
    """What was changed in the case where that made the finding do what `answer` says."""
    return "; ".join(name for name, said in finding.ablations.items() if said.startswith(answer))


def _matrix(t: pd.DataFrame) -> dict[str, Any]:
    """Agreement as paths by backends: the counts in words, and what to colour the cell by."""
    counts = {(str(r.path), str(r.backend)): r for r in tables.agreement(t).itertuples()}
    backends = sorted({backend for _, backend in counts})
    paths = sorted({path for path, _ in counts})
    return {
        "backends": backends,
        "rows": [(path, [_square(counts.get((path, backend))) for backend in backends]) for path in paths],
    }


def _square(count: Any) -> tuple[str, str, str]:  # noqa: ANN401 - a row of itertuples
    if count is None:
        return "none", cells.NOTHING, "not run"
    kind = "diverge" if count.diverge else "inconclusive" if count.inconclusive else "agree"
    words = f"{count.cases:,} cases: {count.agree:,} agree, {count.diverge:,} diverge, {count.inconclusive:,} inconclusive"
    return kind, f"{count.diverge:,} / {count.cases:,}", words

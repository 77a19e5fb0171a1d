"""`report.html`: one page that needs nothing else, with everything escaped and no script.

The markup is in `reports/templates/report.html`; here is only what it shows.
"""

from typing import Any, BinaryIO

from reports import cells, tables
from reports.frame import Table
from reports.page.arbiter import arbitrated
from reports.page.finding import shown_on_page
from reports.page.template import template
from reports.report import Report, merged

FILENAME = "report.html"


def render(report: Report, file: BinaryIO) -> None:
    """Writes the page."""
    arbiter = arbitrated(report.frame, report.findings)
    page = template(FILENAME).render(
        report=report,
        generated=f"{report.generated:%Y-%m-%d %H:%M} UTC",
        campaigns=sorted(report.frame.comparisons),
        environment=merged(report.environment),
        findings=[
            shown_on_page(f, arbiter.get(f.fingerprint, ""), new=f.fingerprint in report.new)
            for f in report.findings
        ],
        matrix=_matrix(report.frame),
        sections=[
            (s.title, s.note, cells.headings(s.table), cells.rows(s.table))
            for s in tables.sections(report.frame)
        ],
    )
    file.write(page.encode())


def _matrix(t: Table) -> dict[str, Any]:
    """Agreement as paths by backends: the counts in words, and the class that colours the cell."""
    counts = {(str(r.path), str(r.backend)): r for r in tables.agreement(t).itertuples()}
    backends = sorted({backend for _, backend in counts})
    paths = sorted({path for path, _ in counts})
    return {
        "backends": backends,
        "rows": [(path, [_cell(counts.get((path, backend))) for backend in backends]) for path in paths],
    }


def _cell(count: Any) -> tuple[str, str, str]:  # noqa: ANN401 - a row of itertuples
    """The class, the text and the tooltip of one cell.

    `count` is None where the backend ran no case of the path.
    """
    if count is None:
        return "none", cells.NOTHING, "not run"
    kind = "diverge" if count.diverge else "inconclusive" if count.inconclusive else "agree"
    verdicts = f"{count.agree:,} agree, {count.diverge:,} diverge, {count.inconclusive:,} inconclusive"
    return kind, f"{count.diverge:,} / {count.cases:,}", f"{count.cases:,} cases: {verdicts}"

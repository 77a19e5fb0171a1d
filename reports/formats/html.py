"""`report.html`: one page that needs nothing else, with everything escaped and no script.

The markup is in `reports/templates/report.html`; here is only what it shows.
"""

from typing import Any, BinaryIO

from difftest.records.comparisons import Counts
from difftest.records.completeness import why
from reports import cells, covered, tables
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
            shown_on_page(cause, arbiter.get(cause.finding.fingerprint, ""), new=report.has_new(cause))
            for cause in report.causes
        ],
        matrix=_matrix(report.frame),
        compared=_section(tables.compared(report.comparisons)),
        sections=[
            _section(section) for section in (*tables.sections(report.frame), *covered.sections(report.frame))
        ],
    )
    file.write(page.encode())


def _section(section: tables.Section) -> tuple[Any, ...]:
    return section.title, section.note, cells.headings(section.table), cells.rows(section.table)


def _matrix(t: Table) -> dict[str, Any]:
    """Agreement as paths by backends: the counts in words, and the class that colours the cell."""
    counts = {(str(r.path), str(r.backend)): r for r in tables.agreement(t).itertuples()}
    ended = {(place.path, place.backend): counts for place, counts in t.all_comparisons.places.items()}
    places = {*counts, *(place for place in ended if all(place))}
    backends, paths = sorted({backend for _, backend in places}), sorted({path for path, _ in places})
    return {
        "backends": backends,
        "rows": [
            (path, [_cell(counts.get((path, one)), ended.get((path, one), Counts())) for one in backends])
            for path in paths
        ],
    }


def _cell(count: Any, ended: Counts) -> tuple[str, str, str]:  # noqa: ANN401 - a row of itertuples
    """The class, the text and the tooltip of one cell.

    `count` is None where the backend compared and lost no case of the path; `ended` then says why.
    """
    if count is None:
        return "none", cells.NOTHING, why(ended) if ended.unsupported else "not run"
    if not count.cases:
        return "lost", f"{count.lost:,} lost", f"nothing compared: {why(ended)}"
    doubtful = count.inconclusive or count.lost
    kind = "diverge" if count.diverge else "inconclusive" if doubtful else "agree"
    verdicts = f"{count.agree:,} agree, {count.diverge:,} diverge, {count.inconclusive:,} inconclusive"
    lost = f", {count.lost:,} lost" if count.lost else ""
    return kind, f"{count.diverge:,} / {count.cases:,}", f"{count.cases:,} cases: {verdicts}{lost}"

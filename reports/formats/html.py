"""`report.html`: one page that needs nothing else. It escapes everything, and only its own script runs.

The markup is in `reports/templates/report.html`; here is only what it shows.
"""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any, BinaryIO

from difftest.findings.standing import Standing
from difftest.records.conclusion import DOUBTFUL
from difftest.records.watch import IN_DOUBT
from reports import covered
from reports.page import compared, head, history, spoken
from reports.page.arbiter import arbitrated
from reports.page.curves import longest
from reports.page.errors import of_runs
from reports.page.finding import shown_on_page
from reports.page.matrix import of_meshes, of_paths, of_ranks
from reports.page.spoken import surroundings
from reports.page.template import template
from reports.report import Report

FILENAME = "report.html"

MOST_ROWS_PRINTED, MOST_COLUMNS_PRINTED = 12, 9
"""A table of all numbers with more of either is not printed, and a line says where it is."""


def render(report: Report, file: BinaryIO) -> None:
    """Writes the page."""
    arbiter, marks = arbitrated(report.frame, report.findings), history.marks(report)
    shown = {
        standing: [
            shown_on_page(report, cause, arbiter.get(cause.finding.fingerprint, ""), marks)
            for cause in causes
        ]
        for standing, causes in report.groups.items()
    }
    script = (files("reports") / "templates" / "report.js").read_text()
    page = template(FILENAME).render(
        report=report,
        headline=report.headline,
        counts=head.counts(report),
        when=head.when(report),
        opening=report.conclusion.opening,
        # The page's headline begins with the doubt.
        incomplete=[spoken.sentence(report, one.removeprefix(f"{IN_DOUBT}: ")) for one in report.incomplete],
        doubtful=DOUBTFUL,
        never_worked=[spoken.sentence(report, words) for words in report.conclusion.excused],
        versions=head.versions(report),
        generated=f"{report.generated:%Y-%m-%d %H:%M} UTC",
        environment=surroundings(report),
        groups=_groups(shown),
        maps=[
            ("path", of_paths(report)),
            ("axes of the mesh", of_meshes(report)),
            ("size of the mesh", of_ranks(report)),
        ],
        errors=of_runs(report),
        drawings=longest(report),
        history=history,
        nights=history.nights(report),
        compared=compared,
        compared_rows=compared.rows(report),
        blind=compared.blind(report),
        coverage=[spoken.section(report, section) for section in covered.at_a_glance(report.covered)],
        sections=[spoken.section(report, section) for section in (*report.sections, *report.covered)],
        most_printed=(MOST_ROWS_PRINTED, MOST_COLUMNS_PRINTED),
        script=script,
        digest=b64encode(sha256(script.encode()).digest()).decode(),
    )
    file.write(page.encode())


def _groups(shown: dict[Standing, list[Any]]) -> list[dict[str, Any]]:
    """The three groups of findings: what needs somebody, what could be reported, and the rest."""
    rest = [cause for standing in tuple(Standing)[2:] for cause in shown[standing]]
    return [
        {"id": "need", "title": "Need you", "note": "not explained yet", "open": True}
        | {"findings": shown[Standing.UNKNOWN]},
        {"id": "understood", "title": "Understood, not reported", "open": True}
        | {"note": "a script shows each of them; no issue is known", "findings": shown[Standing.UNDERSTOOD]},
        {
            "id": "known",
            "title": "Nothing to do",
            "note": "reported upstream, fixed, unstable or left open by torch",
        }
        | {"open": False, "findings": rest},
    ]

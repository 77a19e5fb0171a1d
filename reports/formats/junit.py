"""`junit.xml`: the comparisons and the findings as tests, for programs that show test results.

The first suite has a test for each side of the last campaign, which is an error where too little of it was
compared, and for whatever else is missing. Any other suite is a backend. Its tests are the paths that it was
compared on, which pass; those of which all comparisons were lost, which are skipped; and its findings. A
finding fails if it is new and the ledger has no entry about it; any other is skipped, with the reason, so
that known faults turn no run red.
"""

import re
from collections.abc import Iterable
from typing import BinaryIO
from xml.etree import ElementTree as ET

import pandas as pd

from difftest.records.comparisons import Counts
from difftest.records.completeness import in_words, why
from difftest.records.finding import Finding
from reports import cells, tables
from reports.report import Report

FILENAME = "junit.xml"
GREATEST_TEXT = 10_000
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, however it is written."""


def render(report: Report, file: BinaryIO) -> None:
    """Writes the suites with their counts; times are in seconds."""
    compared = report.frame.compared
    ended: dict[str, dict[str, Counts]] = {}
    for place, counts in report.frame.all_comparisons.places.items():
        ended.setdefault(place.backend, {})[place.path] = counts
    root = ET.Element("testsuites", name=_text(report.title))
    _sides(root, report)
    for backend in sorted({*ended, *(finding.divergence.backend for finding in report.findings)}):
        suite = ET.SubElement(root, "testsuite", name=_text(backend))
        own = ended.get(backend, {})
        _properties(suite, own.values())
        by_path = compared[compared["backend"] == backend].groupby("path", observed=True)
        groups = {str(path): rows for path, rows in by_path}
        for path, counts in sorted(own.items()):
            _path(suite, backend, path, counts, groups.get(path))
        for finding in report.findings:
            if finding.divergence.backend == backend:
                _finding(suite, finding, new=finding.fingerprint in report.new)
        _count(suite)
    _count(root)
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    file.write(text + b"\n")


def _sides(root: ET.Element, report: Report) -> None:
    """A test for each side of the last campaign, and for what else is missing in it."""
    reasons = {subject: why for subject, _, why in (each.partition(": ") for each in report.incomplete)}
    sides = {f"side {name}": counts for name, counts in report.comparisons.sides.items()}
    if not (subjects := {**sides, **reasons}):
        return
    suite = ET.SubElement(root, "testsuite", name="comparisons")
    for subject in subjects:
        case = ET.SubElement(suite, "testcase", classname="comparisons", name=_text(subject), time="0")
        if why := reasons.get(subject):
            ET.SubElement(case, "error", type="incomplete", message=_text(why))
        else:
            ET.SubElement(case, "system-out").text = _text(in_words(sides[subject]))
    _count(suite)


def _properties(suite: ET.Element, ended: Iterable[Counts]) -> None:
    """How the comparisons of a backend ended, as numbers by name."""
    total = Counts()
    for counts in ended:
        total.include(counts)
    properties = ET.SubElement(suite, "properties")
    for name, number in tables.ended(total).items():
        ET.SubElement(properties, "property", name=name, value=str(number))


def _path(suite: ET.Element, backend: str, path: str, ended: Counts, rows: pd.DataFrame | None) -> None:
    """The comparisons of a backend on a path, which pass: a divergence is a finding, with its own test.

    Without any, the test is skipped; there is none for what the backend does not support.
    """
    if rows is None and not ended.not_judged:
        return
    took = 0.0 if rows is None else float(rows["seconds"].clip(lower=0.0).sum())
    case = ET.SubElement(suite, "testcase", classname=_text(backend), name=_text(path), time=f"{took:.3f}")
    if rows is None:
        ET.SubElement(case, "skipped", message=_text(f"nothing was compared: {why(ended)}"))
        return
    counts = (f"{int((rows['verdict'] == verdict).sum())} {verdict}" for verdict in tables.VERDICTS)
    more = f"; beside them {why(ended)}" if ended.not_judged else ""
    ET.SubElement(case, "system-out").text = _text(f"{len(rows)} comparisons: {', '.join(counts)}{more}")


def _finding(suite: ET.Element, finding: Finding, *, new: bool) -> None:
    where = _text(f"{finding.divergence.backend}.{finding.divergence.check}")
    case = ET.SubElement(suite, "testcase", classname=where, name=_text(finding.fingerprint), time="0")
    what = cells.cut(f"{finding.blame}; {finding.divergence.detail}", GREATEST_TEXT, "see finding.json")
    if new and not finding.upstream:
        failure = ET.SubElement(case, "failure", type=_text(finding.divergence.symptom), message=_text(what))
        failure.text = _text(
            cells.cut(finding.divergence.log or finding.divergence.detail, GREATEST_TEXT, "see finding.json")
        )
    else:
        reason = (
            f"known upstream: {finding.upstream}"
            if finding.upstream
            else f"known since {finding.first_seen or 'an earlier campaign'}"
        )
        ET.SubElement(case, "skipped", message=_text(f"{reason}; {what}"))


def _count(suite: ET.Element) -> None:
    """The totals, as attributes."""
    tags = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    for name, tag in tags.items():
        suite.set(name, str(sum(1 for _ in suite.iter(tag))))
    suite.set("time", f"{sum(float(case.get('time', 0)) for case in suite.iter('testcase')):.3f}")


def _text(value: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)

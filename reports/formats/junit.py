"""`junit.xml`: the comparisons and the findings as tests, for programs that show test results.

A suite is a backend. Its tests are the paths that it was compared on, which pass, and its findings. A finding
fails if it is new and the ledger has no entry about it; any other is skipped, with the reason, so that known
faults turn no run red.
"""

import re
from typing import BinaryIO
from xml.etree import ElementTree as ET

import pandas as pd

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
    backends = sorted(
        {
            *map(str, compared["backend"].unique()),
            *(finding.divergence.backend for finding in report.findings),
        }
    )
    root = ET.Element("testsuites", name=_text(report.title))
    for backend in backends:
        suite = ET.SubElement(root, "testsuite", name=_text(backend))
        for path, rows in compared[compared["backend"] == backend].groupby("path", observed=True):
            _path(suite, backend, str(path), rows)
        for finding in report.findings:
            if finding.divergence.backend == backend:
                _finding(suite, finding, new=finding.fingerprint in report.new)
        _count(suite)
    _count(root)
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    file.write(text + b"\n")


def _path(suite: ET.Element, backend: str, path: str, rows: pd.DataFrame) -> None:
    """The comparisons of a backend on a path, which pass: a divergence is a finding, with its own test."""
    took = float(rows["seconds"].clip(lower=0.0).sum())
    case = ET.SubElement(suite, "testcase", classname=_text(backend), name=_text(path), time=f"{took:.3f}")
    counts = (f"{int((rows['verdict'] == verdict).sum())} {verdict}" for verdict in tables.VERDICTS)
    ET.SubElement(case, "system-out").text = f"{len(rows)} comparisons: {', '.join(counts)}"


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
        why = (
            f"known upstream: {finding.upstream}"
            if finding.upstream
            else f"known since {finding.first_seen or 'an earlier campaign'}"
        )
        ET.SubElement(case, "skipped", message=_text(f"{why}; {what}"))


def _count(suite: ET.Element) -> None:
    """The totals, as attributes."""
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
        suite.set(name, str(sum(1 for _ in suite.iter(tag))))
    suite.set("errors", "0")
    suite.set("time", f"{sum(float(case.get('time', 0)) for case in suite.iter('testcase')):.3f}")


def _text(value: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)

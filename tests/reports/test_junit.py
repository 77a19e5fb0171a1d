"""JUnit reports: only new findings without an entry in the ledger fail, and findings stay text."""

from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from sample_findings import (
    BEGAN,
    HOSTILE_TEXT,
    a_corpus,
    a_finding,
    a_report,
    changed,
    rendered,
    several_observations,
)

from reports import frame
from reports.formats import junit

NEW = a_finding(first_seen=BEGAN.isoformat(), new_in=("first", 0), announced="2026-01-05")
OLD = a_finding(fingerprint="xla_spmd-loss-mismatch-00000000", first_seen="2020-01-01T00:00:00+00:00")


def read(content: bytes) -> ET.Element:
    return ET.fromstring(content)  # noqa: S314  we wrote it


def suites(tmp_path: Path, *findings: object) -> ET.Element:
    table = frame.load(a_corpus(tmp_path, *several_observations()))
    return read(rendered(junit, a_report(table, *findings)))  # type: ignore[arg-type]


def results(root: ET.Element) -> dict[str, str]:
    """The result of every finding, by fingerprint."""
    return {
        case.get("name", ""): case[0].tag for case in root.iter("testcase") if case[0].tag != "system-out"
    }


def test_only_new_findings_without_a_ledger_entry_fail(tmp_path: Path) -> None:
    in_ledger = msgspec.structs.replace(
        NEW, fingerprint="xla_spmd-loss-mismatch-11111111", upstream="pytorch/xla#1"
    )
    unannounced = msgspec.structs.replace(
        OLD, fingerprint="xla_spmd-loss-mismatch-22222222", new_in=("killed", 3)
    )
    root = suites(tmp_path, NEW, OLD, in_ledger, unannounced)
    assert results(root) == {
        NEW.fingerprint: "failure",
        OLD.fingerprint: "skipped",
        in_ledger.fingerprint: "skipped",
        unannounced.fingerprint: "failure",
    }
    assert [root.get(name) for name in ("tests", "failures", "skipped", "errors")] == ["10", "2", "2", "0"]


def test_each_path_is_a_passing_test_with_its_counts(tmp_path: Path) -> None:
    root = suites(tmp_path)
    counts = {
        (case.get("classname"), case.get("name")): case.findtext("system-out")
        for case in root.iter("testcase")
    }
    assert counts["torch_ddp", "data_parallel"] == "1 comparisons: 1 agree, 0 diverge, 0 inconclusive"
    assert results(root) == {}


def test_markup_and_control_characters_are_text(tmp_path: Path) -> None:
    root = suites(tmp_path, changed(NEW, detail=HOSTILE_TEXT + "\x00\x1b", log="]]>" + HOSTILE_TEXT))
    (failure,) = root.iter("failure")
    assert failure.text == "]]>" + HOSTILE_TEXT
    assert "</script>" in failure.get("message", "")
    assert failure.get("message", "").endswith("\N{REPLACEMENT CHARACTER}" * 2)


@given(st.text(), st.text())
def test_any_text_can_be_read_back(detail: str, log: str) -> None:
    finding = changed(NEW, detail=detail, log=log)
    suite = ET.Element("testsuite")
    junit._finding(suite, finding, new=True)  # noqa: SLF001
    assert read(ET.tostring(suite))[0][0].tag == "failure"

"""The wrong reports in docs/false-findings.toml: each has its commits, and tests that exist."""

import ast
import re
import tomllib
from functools import cache

import msgspec
import pytest
from pages import ROOT


class Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A way to be wrong."""

    name: str
    title: str


class WrongReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry; the head of the file explains the fields."""

    kind: str
    report: str
    cause: str
    by: str
    mended: tuple[str, ...]
    count: int = 0
    tests: tuple[str, ...] = ()
    untested: str = ""


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    kind: tuple[Kind, ...]
    finding: tuple[WrongReport, ...]


DATA = msgspec.convert(tomllib.loads((ROOT / "docs" / "false-findings.toml").read_text()), Data)
SENTENCE = re.compile(r"[^|\n]+")


@cache
def functions_in(file: str) -> frozenset[str]:
    """The names of the functions of a file of tests."""
    (path,) = (ROOT / "tests").rglob(file)
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_report_has_a_kind_and_every_kind_a_report() -> None:
    assert {report.kind for report in DATA.finding} == {kind.name for kind in DATA.kind}
    assert [*dict.fromkeys(report.kind for report in DATA.finding)] == [kind.name for kind in DATA.kind]


def test_a_report_has_commits_and_tests_that_exist_or_says_why_not(subtests: pytest.Subtests) -> None:
    for report in DATA.finding:
        with subtests.test(report=report.report):
            assert report.mended
            assert all(re.fullmatch("[0-9a-f]{7,8}", commit) for commit in report.mended)
            assert bool(report.tests) != bool(report.untested)
            assert [test for test in report.tests if not exists(test)] == []
            assert report.count >= 0
            texts = (report.report, report.cause, report.by, report.untested or "-")
            assert all(SENTENCE.fullmatch(text) for text in texts), "it is a cell of a table"


def exists(test: str) -> bool:
    file, _, function = test.partition("::")
    return function.startswith("test_") and function in functions_in(file)


def test_no_report_is_listed_twice() -> None:
    assert len({(report.kind, report.report) for report in DATA.finding}) == len(DATA.finding)

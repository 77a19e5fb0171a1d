"""Findings are shown by cause: one line for many operators and backends."""

from datetime import date

import pytest
from msgspec.structs import replace
from sample_findings import MISMATCH, a_finding
from sample_programs import a_program, an_operator
from samples import a_case

from difftest.findings.causes import causes
from difftest.findings.ledger import Entry, Ledger
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage
from difftest.records.evidence import WRONG_SIBLINGS
from difftest.records.finding import Finding

LATER = date(2999, 1, 1)


def of_program(name: str, operator: str = "sum", **shown: object) -> Finding:
    """A finding of a program, whose divergence has these fields."""
    divergence = replace(a_finding().divergence, operator=operator, **shown)
    return replace(a_finding(), fingerprint=name, divergence=divergence, operators=(operator,), hits=2)


def by_cause(*findings: Finding) -> list[tuple[str, ...]]:
    return [tuple(finding.fingerprint for finding in cause.findings) for cause in causes(findings)]


FAILED = {"check": "completion", "symptom": Symptom.EXCEPTION, "cause": "RuntimeError\nOP failed"}


def test_failures_with_one_message_have_one_cause_on_every_backend_of_a_side() -> None:
    first = of_program("a", "sum", **FAILED)
    second = of_program("b", "prod", backend="xla_annotated", **FAILED)
    other_side = of_program("c", "prod", backend="torch_dtensor", side="torch", **FAILED)
    another = of_program("d", **{**FAILED, "cause": "RuntimeError\nanother"})
    assert by_cause(first, second, other_side, another) == [("a", "b"), ("c",), ("d",)]
    (cause,) = causes((first, second))
    assert (cause.operators, cause.backends, cause.hits) == (
        ("prod", "sum"),
        ("xla_annotated", "xla_spmd"),
        4,
    )


def test_mismatches_of_operators_that_are_one_of_torch_s_have_one_cause() -> None:
    first = replace(of_program("a", "mean"), dispatched=("sum", "view"))
    second = replace(of_program("b", "sum"), dispatched=("sum",))
    other = replace(of_program("c", "prod"), dispatched=("prod",))
    backward = replace(of_program("d", "sum", stage=Stage.BACKWARD), dispatched=("sum",))
    assert by_cause(first, second, other, backward) == [("a", "b"), ("c",), ("d",)]


def test_mismatches_of_which_nothing_was_dispatched_have_their_operator_s_cause() -> None:
    assert by_cause(of_program("a", "sum"), of_program("b", "prod"), of_program("c", "sum")) == [
        ("a", "c"),
        ("b",),
    ]


def test_views_that_are_copies_have_one_cause() -> None:
    narrow, select = (of_program(name, name, nature=f"{name}, lost alias") for name in ("narrow", "select"))
    assert by_cause(narrow, select) == [("narrow", "select")]


def test_findings_of_one_issue_have_one_cause() -> None:
    first, second = (replace(of_program(name, name), upstream="an issue") for name in "ab")
    assert by_cause(first, second) == [("a", "b")]


def test_what_torch_leaves_open_for_one_reason_has_one_cause() -> None:
    ties, signs = "the order of ties", "the signs of vectors"
    undefined = {"symptom": Symptom.UNDEFINED}
    first, other = (
        of_program("a", "sort", left_open=ties, **undefined),
        of_program("b", "svd", left_open=signs, **undefined),
    )
    second = of_program("c", "topk", left_open=ties, **undefined)
    assert by_cause(first, other, second) == [("a", "c"), ("b",)]


def ordinary(name: str, backend: str, also_on: str = "", **shown: object) -> Finding:
    """A finding of a case that is no program, which shows on further backends too."""
    divergence = replace(a_finding().divergence, backend=backend, **shown)
    beside = {WRONG_SIBLINGS: also_on} if also_on else {}
    return replace(a_finding(), fingerprint=name, divergence=divergence, evidence=beside)


def test_wrong_numbers_that_two_backends_share_are_one_cause() -> None:
    spmd, ddp = ordinary("a", "xla_spmd", "xla_ddp"), ordinary("b", "xla_ddp", "xla_spmd")
    alone, elsewhere = ordinary("c", "xla_ddp"), ordinary("d", "xla_ddp", "xla_spmd", stage=Stage.UPDATE)
    assert by_cause(spmd, ddp, alone, elsewhere) == [("a", "b"), ("c",), ("d",)]
    (cause,) = causes((spmd, ddp))
    assert (cause.backends, cause.hits) == (("xla_ddp", "xla_spmd"), spmd.hits + ddp.hits)


def test_wrong_numbers_of_two_kinds_on_one_backend_are_two_causes() -> None:
    first, second = ordinary("a", "xla_spmd"), ordinary("b", "xla_spmd", nature="zero")
    assert first.divergence.fingerprint != second.divergence.fingerprint
    assert by_cause(first, second) == [("a",), ("b",)]


def test_a_crash_in_one_frame_is_one_cause_on_all_backends_of_a_side() -> None:
    first, second = (
        ordinary(name, backend, **FAILED) for name, backend in (("a", "xla_ddp"), ("b", "xla_tp"))
    )
    assert by_cause(first, second) == [("a", "b")]


def test_on_a_terminal_a_finding_of_an_ordinary_case_is_a_cause_by_itself() -> None:
    known = (replace(ordinary(name, "xla_spmd"), upstream="an issue") for name in "ab")
    programs = (of_program(name, name, **FAILED) for name in "cd")
    lines = causes((*known, *programs), of_programs_alone=True)
    assert [tuple(finding.fingerprint for finding in line.findings) for line in lines] == [
        ("a",),
        ("b",),
        ("c", "d"),
    ]


def test_many_operators_are_named_in_short() -> None:
    findings = [of_program(str(number), f"operator{number:02}", **FAILED) for number in range(20)]
    (cause,) = causes(findings)
    assert cause.operators_in_short.endswith("operator07, 12 more")


PROGRAM = a_program(an_operator("sum"), an_operator("prod"))
ENTRY = Entry(
    fingerprint="xla_*", upstream="an issue", reason="a reason", expires=LATER, operators=("sum", "mean*")
)


@pytest.mark.parametrize(
    ("operator", "matches"), [("sum", True), ("mean_var", True), ("prod", False), ("", True)]
)
def test_a_ledger_s_entry_can_be_about_operators(operator: str, matches: bool) -> None:
    entry = Ledger(entries=(ENTRY,)).entry(replace(MISMATCH, operator=operator), PROGRAM, LATER)
    assert (entry is not None) == matches


def test_an_entry_about_operators_is_not_about_ordinary_cases() -> None:
    assert Ledger(entries=(ENTRY,)).entry(MISMATCH, a_case(), LATER) is None

"""Findings of schema 2, which kept what is wrong as a sentence: their facts, and the same sentence again."""

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from sample_findings import FINDING, MISMATCH

from difftest.ground.errors import DamagedError
from difftest.judge.facts import (
    OTHER_KINDS,
    Facts,
    FailureFacts,
    KindsFacts,
    NumbersFacts,
    PropertyFacts,
    RemarkFacts,
)
from difftest.records import reduced_run
from difftest.records.evidence import FORMER
from difftest.records.finding import SCHEMA, Finding

NUMBERS = NumbersFacts(differing=13, elements=316, greatest=0.714, scale=0.21, floor=1.2e-7, damage="zero")


def of_schema_2(detail: str, **changes: object) -> Finding:
    divergence = msgspec.to_builtins(MISMATCH) | {"tensor": "0.weight", "detail": detail} | changes
    del divergence["facts"]
    made = json.loads(FINDING.to_json()) | {"divergence": divergence, "schema": 2}
    return Finding.from_json(json.dumps(made))


@pytest.mark.parametrize(
    ("what", "ratio", "facts"),
    [
        (
            (
                "13 / 316 elements (4.1%) differ; greatest 0.714, 3.1e+05 x the rounding noise 1.2e-07; "
                "values are about 0.21; zero"
            ),
            3.1e5,
            NUMBERS,
        ),
        (
            "13 / 316 elements (4.1%) differ; greatest 0.714, exact: none allowed; values are about 0.21",
            9.0,
            replace(NUMBERS, floor=0.0, exact=True, damage=""),
        ),
        (
            "2 values are NaN where the oracle's are minus infinity, on ranks [0, 3]",
            None,
            KindsFacts(count=2, actual="NaN", expected="minus infinity", ranks=(0, 3)),
        ),
        (
            "2 values are of other kinds than the oracle's (numbers, infinities or NaN), on ranks [1]",
            None,
            KindsFacts(count=2, actual=OTHER_KINDS, ranks=(1,)),
        ),
        (
            "has shape (2, 3), expected (3,)",
            None,
            PropertyFacts(property="shape", actual="(2, 3)", expected="(3,)"),
        ),
        ("is missing", None, RemarkFacts(remark="is missing")),
    ],
)
def test_what_is_wrong_with_a_tensor_is_read_from_its_sentence(
    what: str, ratio: float | None, facts: Facts
) -> None:
    detail = f"step 0, backward, 0.weight: {what}"
    shown = of_schema_2(detail, ratio=ratio).divergence
    assert shown.facts == facts
    assert shown.detail == detail


@pytest.mark.parametrize("again", ["", "run again, it failed: "])
def test_a_failure_is_read_with_its_frame(again: str) -> None:
    detail = f"{again}step 0, backward, rank 2: RuntimeError: size: 3\nof dim 1"
    cause = "RuntimeError\nsize: #\nfunctional.py:linear"
    facts = FailureFacts(
        kind="RuntimeError",
        message="size: 3\nof dim 1",
        frame="functional.py:linear",
        rank=2,
        again=bool(again),
    )
    shown = of_schema_2(detail, symptom="exception", cause=cause).divergence
    assert shown.facts == shown.failure == facts
    assert shown.detail == detail


def test_why_torch_leaves_numbers_open_is_no_part_of_the_facts() -> None:
    detail = "step 0, backward, 0.weight: is missing; torch leaves open: the order of ties"
    shown = of_schema_2(detail, symptom="undefined").divergence
    assert (shown.facts, shown.left_open) == (RemarkFacts(remark="is missing"), "the order of ties")
    assert shown.detail == detail


@pytest.mark.parametrize(
    "detail",
    [
        "step 3: 1 new graphs; compiled by the end of each step: [1, 2]",
        (
            "step 0, backward, 0.weight: 13 / 316 elements (5.0%) differ; greatest 1, exact: none allowed; "
            "values are about 1"
        ),
        "step 1, forward, output: of another place",
        (
            "step 0, backward, 0.weight: 1 / 2 elements (50.0%) differ; greatest 1.2.3, exact: none allowed; "
            "values are about 1"
        ),
    ],
)
def test_a_sentence_that_no_facts_give_again_stays_as_it_is(detail: str) -> None:
    shown = of_schema_2(detail).divergence
    assert shown.detail == detail
    assert isinstance(shown.facts, RemarkFacts)


@pytest.mark.parametrize(
    "changes",
    [
        {"divergence": None},
        {"divergence": {}},
        {"divergence": {"stage": "moon", "symptom": "mismatch", "detail": "x"}},
        {"evidence": {"single": 1}},
        {"evidence": "x"},
        {"uncovered": ["x"]},
        {"uncovered": 1},
    ],
)
def test_a_damaged_file_of_schema_2_is_refused(changes: dict[str, object]) -> None:
    old = json.loads(FINDING.to_json()) | {"schema": 2} | changes
    with pytest.raises(DamagedError, match="finding cannot be read"):
        Finding.from_json(json.dumps(old))


def test_the_evidence_has_its_present_names_and_a_new_file_says_so() -> None:
    old = json.loads(FINDING.to_json()) | {"evidence": dict.fromkeys(FORMER, "x"), "schema": 2}
    finding = Finding.from_json(json.dumps(old))
    assert finding.evidence == dict.fromkeys(FORMER.values(), "x")
    written = json.loads(finding.to_json())
    assert written["schema"] == SCHEMA
    assert "detail" not in written["divergence"]
    assert Finding.from_json(finding.to_json()) == finding


def test_a_reduced_run_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    detail = "step 0, backward, 0.weight: is missing"
    divergence = msgspec.to_builtins(MISMATCH) | {"tensor": "0.weight", "detail": detail}
    del divergence["facts"]
    (tmp_path / reduced_run.FILE).write_text(json.dumps({"case": "a", "divergence": divergence}))
    run = reduced_run.read(tmp_path, "a")
    assert run
    assert run.divergence.detail == detail
    for damaged in ("[]", "{}", '{"divergence": 1}', '{"case": "a", "divergence": {"detail": "x"}}'):
        (tmp_path / reduced_run.FILE).write_text(damaged)
        assert reduced_run.read(tmp_path, "a") is None

"""One line in the tracker's words for each finding, and what a reader has to do about it."""

from dataclasses import replace as changed_cause
from datetime import date

import pytest
from msgspec.structs import replace
from sample_findings import a_finding, changed
from samples import a_case

from difftest.findings import titles
from difftest.findings.causes import Cause, causes
from difftest.findings.ledger import Entry, Ledger
from difftest.findings.standing import Standing, grouped, headline, in_words, standing
from difftest.findings.titles import sentence, spoken, title, upstream_title
from difftest.findings.triage import Status
from difftest.judge import damage
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage
from difftest.records.evidence import DECIDED_BY
from difftest.records.finding import Finding

CALLED = {"xla_spmd": "XLA SPMD", "torch_dtensor": "DTensor"}
ISSUE, SCRIPT = "https://github.com/pytorch/xla/issues/9735", "difftest/findings/known/amax_without_a_dim.py"
FAILED = {"check": "completion", "symptom": Symptom.EXCEPTION, "ratio": None}


def failed(detail: str, symptom: Symptom = Symptom.EXCEPTION, **fields: object) -> Finding:
    """A finding of a run that failed, whose divergence says `detail`."""
    return changed(a_finding(), **{**FAILED, "symptom": symptom, "detail": detail, **fields})


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        (
            failed("step 0, forward, rank 0: IndexError: tuple index out of range. Please report a bug."),
            "IndexError in the forward pass: tuple index out of range",
        ),
        (
            failed(
                "step 1, backward, rank 2: RuntimeError: Sharding propagation failed for "
                "Op(op=aten._unsafe_view.default, args_schema=Spec(S(0) on (4, 2)), [8] @ mesh: (5,)) "
                "RuntimeError: ('Attempted to flatten a sharded dim of a tensor. ', 'It cannot.')",
                stage=Stage.BACKWARD,
            ),
            "view raises RuntimeError in the backward pass: Attempted to flatten a sharded dim of a tensor",
        ),
        (
            failed(
                "step 0, backward, rank 0: RuntimeError: Expected dY.numel() == N * C * HxW to be true, but "
                "got false.  (Could this error message be improved?  If so, please report an enhancement "
                "request to PyTorch.)",
                stage=Stage.BACKWARD,
            ),
            "RuntimeError in the backward pass: Expected dY.numel() == N * C * HxW to be true, but got false",
        ),
        (
            failed("step 0, rank 1: hung", Symptom.HANG, operators=("roll",)),
            "roll hangs in the forward pass",
        ),
        (
            failed("step 0, rank 0: SIGSEGV: died", Symptom.CRASH, cause="SIGSEGV\n\nxla::Compile"),
            "dies of SIGSEGV in the forward pass, in xla::Compile",
        ),
        (
            failed(
                "step 0, forward, rank 0: SIGABRT: F0000 00:00:1764021893.17   12345 "
                "external/xla/xla/partitioner.cc:3466] Check failed: x It has none",
                Symptom.CRASH,
            ),
            "dies of SIGABRT in the forward pass: partitioner.cc: Check failed: x It has none",
        ),
        (
            changed(
                a_finding(),
                symptom=Symptom.NONFINITE,
                operator="mean",
                detail="4 values are NaN where the oracle's are numbers, on ranks [0, 1]",
            ),
            "result of mean has NaN instead of numbers",
        ),
        (
            changed(
                a_finding(),
                symptom=Symptom.NONFINITE,
                stage=Stage.BACKWARD,
                tensor="0.weight",
                detail="4 values are not finite, on ranks [0, 1]",
            ),
            "gradient of 0.weight has infinities or NaN",
        ),
        (
            changed(a_finding(), tensor="loss", nature=damage.LONELY),
            "wrong loss: on one rank alone",
        ),
        (
            changed(a_finding(), stage=Stage.BACKWARD, tensor="0.weight", nature=damage.ZERO),
            "wrong gradient of 0.weight: all zeros",
        ),
        (
            replace(
                changed(a_finding(), tensor="output", nature=damage.COUNTED),
                located=("forward, step 0: module 1 (RMSNorm)",),
                evidence={DECIDED_BY: "ddp.gradient_as_bucket_view"},
            ),
            "wrong output of RMSNorm with gradient_as_bucket_view: off by a number of ranks",
        ),
        (
            changed(
                a_finding(),
                symptom=Symptom.UNDEFINED,
                operator="sort",
                left_open="ties",
            ),
            "results of sort differ where torch leaves them open: ties",
        ),
    ],
)
def test_a_title_says_what_happens_in_plain_words(finding: Finding, expected: str) -> None:
    assert title(finding, CALLED) == f"XLA SPMD: {expected}"


def test_a_known_fault_has_the_words_of_its_entry_in_the_ledger() -> None:
    finding = replace(a_finding(), upstream=ISSUE)
    entries = [
        Entry(fingerprint=pattern, upstream=ISSUE, reason=reason, expires=date(2999, 1, 1))
        for pattern, reason in (
            ("torch_*", "another reason"),
            ("xla_*", "amax reduces nothing"),
        )
    ]
    reason = titles.reason_of(finding, a_case(), Ledger(entries=tuple(entries)))
    assert title(finding, CALLED, reason) == "XLA SPMD: amax reduces nothing"
    assert not titles.reason_of(replace(finding, upstream=""), a_case(), Ledger(entries=tuple(entries)))


def test_a_reason_that_begins_with_the_backend_names_it_once() -> None:
    assert title(a_finding(), CALLED, "XLA SPMD drops it") == "XLA SPMD drops it"


def test_a_backend_in_an_environment_of_its_own_has_that_in_brackets() -> None:
    assert spoken("torch_dtensor@nightly", CALLED) == "DTensor (nightly)"
    assert spoken("mine", CALLED) == "mine"


def test_the_title_of_a_draft_names_no_environment_of_ours() -> None:
    here = a_finding()
    there = replace(here, divergence=replace(here.divergence, backend=f"{here.divergence.backend}@newest"))
    assert title(there, CALLED) != title(here, CALLED) == upstream_title(there, CALLED)


def test_a_long_sentence_ends_at_a_clause_and_never_in_a_word() -> None:
    long = sentence("the first clause is long enough to stand alone; " + "words, " * 60)
    assert len(long) <= titles.MOST_TITLE
    assert long.endswith("words")
    whole = "word " * 60
    assert sentence(whole) == whole.strip(), "no clause to end at"


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        (a_finding(), Standing.UNKNOWN),
        (a_finding(stable=(2, 2)), Standing.UNKNOWN),
        (a_finding(stable=(1, 3)), Standing.UNSTABLE),
        (a_finding(upstream=SCRIPT), Standing.UNDERSTOOD),
        (a_finding(upstream=ISSUE), Standing.REPORTED),
        (a_finding(upstream="difftest/findings/known/tie_broken_by_to_on_xla.py"), Standing.REPORTED),
        (a_finding(upstream="difftest/findings/known/mean_over_uneven_shards.py"), Standing.FIXED),
        (a_finding(upstream=ISSUE, status=str(Status.FIXED)), Standing.FIXED),
        (a_finding(symptom=Symptom.UNDEFINED), Standing.LEFT_OPEN),
    ],
)
def test_what_a_reader_has_to_do_about_a_finding(finding: Finding, expected: Standing) -> None:
    assert standing(finding) is expected


@pytest.mark.parametrize(
    ("upstreams", "expected"),
    [
        ((), "No findings need you."),
        (("",), "1 cause needs you."),
        (("", "", ISSUE), "2 causes need you. 1 is known."),
        ((ISSUE, SCRIPT), "No findings need you. 2 causes are known."),
    ],
)
def test_the_headline_says_what_to_do(upstreams: tuple[str, ...], expected: str) -> None:
    shown = [
        changed(a_finding(), fingerprint=str(number), upstream=upstream, path=str(number))
        for number, upstream in enumerate(upstreams)
    ]
    assert headline(grouped(causes(shown))) == expected


def test_a_cause_needs_somebody_when_one_of_its_findings_does() -> None:
    cause = Cause((a_finding(status=str(Status.FIXED)), a_finding()))
    assert [one for one, its in grouped([cause]).items() if its] == [Standing.UNKNOWN]
    known = changed_cause(cause, findings=cause.findings[:1])
    assert [one for one, its in grouped([known]).items() if its] == [Standing.FIXED]


def test_what_is_fixed_names_the_release_or_the_triage() -> None:
    in_release = a_finding(upstream="difftest/findings/known/mean_over_uneven_shards.py")
    gone = a_finding(upstream=ISSUE, status=str(Status.FIXED))
    words = {
        in_words(Cause((finding,)))
        for finding in (in_release, gone, replace(gone, checked="2026-01-05T09:00:00+00:00"), a_finding())
    }
    assert words == {
        "fixed in torch 2.15.0",
        "fixed, as of the last triage",
        "fixed, as of the triage of 2026-01-05",
        "unknown",
    }


def test_the_title_of_a_cause_names_its_backends() -> None:
    called = {"xla_spmd": "XLA SPMD", "xla_ddp": 'DDP over "xla"', "xla_tp": "tensor parallel"}
    own = "XLA SPMD: wrong loss"
    assert titles.shared(own, ["xla_spmd"], called) == own
    assert titles.shared(own, ["xla_ddp", "xla_spmd"], called) == "XLA: wrong loss"
    many = ["xla_ddp", "xla_spmd", "xla_tp", "xla_x", "xla_y"]
    assert titles.shared(own, many, called) == 'XLA SPMD, DDP over "xla", tensor parallel, 2 more: wrong loss'

"""The project's ledger knows its own faults of operators, and not another fault of the same operator."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from sample_programs import a_program, an_operator
from shown_operators import (
    IS_NAN,
    WAS_NAN,
    backward,
    cut,
    entry,
    failed,
    forward,
    of,
    on_xla,
    other_kinds,
    wrong,
)

from difftest.campaign.case_run import CaseResult
from difftest.campaign.recording import Progress
from difftest.cases.case import Data
from difftest.cases.layers.operator import Argument, Items, Named, Reference
from difftest.cases.layout import Replicate
from difftest.findings.facts import facts
from difftest.findings.ledger import Entry, Ledger
from difftest.jobs.campaign.tally import Tally, known_upstream
from difftest.judge.comparator import Comparison
from difftest.judge.divergence import Divergence
from difftest.judge.stage import Stage
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding

MAX = "max.reduction_with_dim"
MIXED = "RuntimeError: aten.{}: got mixed torch.Tensor and DTensor, need to convert"


@pytest.mark.parametrize(
    ("shown", "another"),
    [
        (forward(MAX, "0.output.1"), forward(MAX, "0.output.0")),
        (forward(MAX, "0.output.1"), backward(MAX)),
        (backward("amax"), forward("amax")),
        (backward("amin"), failed("amin", Stage.BACKWARD, "RuntimeError: anything")),
        (forward("narrow", nature="narrow, lost alias"), forward("narrow", nature="narrow, negated")),
        (forward("index_put"), backward("index_put")),
        (
            failed("sort", Stage.BACKWARD, MIXED.format("scatter.src")),
            failed("sort", Stage.BACKWARD, MIXED.format("add.Tensor")),
        ),
        (
            failed("unravel_index", Stage.FORWARD, MIXED.format("floor_divide.default")),
            failed("unravel_index", Stage.FORWARD, MIXED.format("copy_.default")),
        ),
        (
            failed(
                "select", Stage.BACKWARD, "RuntimeError: Function X returned an invalid gradient at index 0"
            ),
            failed("sin", Stage.BACKWARD, "RuntimeError: Function X returned an invalid gradient at index 0"),
        ),
    ],
    ids=lambda shown: f"{shown.operator} {shown.check} {shown.detail[-40:]}",
)
def test_an_entry_knows_its_fault_and_not_another_one_of_the_operator(
    shown: Divergence, another: Divergence
) -> None:
    assert entry(shown, cut(shown.operator))
    assert entry(another, cut(another.operator)) is None


@pytest.mark.parametrize(
    "shown",
    [forward(MAX, "0.output.1"), backward("amax"), forward("index_put")],
    ids=lambda shown: shown.operator,
)
def test_a_fault_of_shards_is_another_one_where_nothing_is_sharded(shown: Divergence) -> None:
    case = cut(shown.operator)
    whole = a_program(an_operator(shown.operator), sharded={"0.input": (Replicate(),)})
    assert entry(shown, case)
    assert entry(shown, whole) is None


@pytest.mark.parametrize("operator", ["add", "sum", "matmul", "softmax", "cumsum", "nn.functional.linear"])
@pytest.mark.parametrize("make", [forward, backward])
def test_no_entry_knows_wrong_numbers_of_an_operator_without_known_faults(
    operator: str, make: object
) -> None:
    assert callable(make)
    assert entry(make(operator), cut(operator)) is None


BY_ONE = "1 / 4 elements (25.0%) differ; greatest 1, 3e+07 x the rounding noise 2.5e-08"
BY_MORE = "1 / 4 elements (25.0%) differ; greatest 12.5, 3e+07 x the rounding noise 2.5e-08"


@pytest.mark.parametrize(
    ("shown", "another"),
    [
        (other_kinds(forward("remainder"), *IS_NAN), other_kinds(forward("remainder"), *WAS_NAN)),
        (other_kinds(forward("__rmod__"), *IS_NAN), on_xla(forward("__rmod__"), BY_ONE)),
        (other_kinds(of("other", "remainder"), *WAS_NAN), other_kinds(of("input", "remainder"), *WAS_NAN)),
        (on_xla(of("input", "__rmod__")), on_xla(of("other", "__rmod__"))),
        (other_kinds(forward("floor_divide"), *WAS_NAN), other_kinds(forward("floor_divide"), *IS_NAN)),
    ],
    ids=lambda shown: f"{shown.operator} {shown.check} {shown.nature} {shown.detail[-40:]}",
)
def test_a_fault_at_infinities_is_not_another_one_of_the_operator_or_of_other_numbers(
    shown: Divergence, another: Divergence
) -> None:
    infinite = replace(cut(shown.operator), data=Data(batch=1, regime="nonfinite"))
    assert entry(shown, infinite)
    assert entry(another, infinite) is None
    assert entry(shown, cut(shown.operator)) is None, "of numbers alone it is another fault"


@pytest.mark.parametrize(
    ("shown", "another"),
    [
        (on_xla(forward("floor_divide"), BY_ONE), on_xla(forward("floor_divide"), BY_MORE)),
        (on_xla(forward("div.floor_rounding"), BY_ONE), on_xla(forward("div.trunc_rounding"), BY_ONE)),
    ],
    ids=lambda shown: f"{shown.operator} {shown.detail[-40:]}",
)
def test_a_quotient_that_is_rounded_down_is_off_by_one_and_not_by_more(
    shown: Divergence, another: Divergence
) -> None:
    for regime in ("nonfinite", "normal"):
        case = replace(cut(shown.operator), data=Data(batch=1, regime=regime))
        assert entry(shown, case)
        assert entry(another, case) is None


def test_shards_that_a_fused_optimizer_made_on_the_host_are_known_where_they_are_sharded() -> None:
    shown = on_xla(forward("aten._fused_sgd", "0.output.0"))
    assert entry(shown, cut("aten._fused_sgd"))
    assert entry(shown, a_program(an_operator("aten._fused_sgd"))) is None
    assert entry(on_xla(forward("aten._fused_sgd_", "0.output.0")), cut("aten._fused_sgd_")) is None


def test_a_float32_constant_in_float64_is_not_a_great_error_or_one_in_float32() -> None:
    wide = replace(cut("nn.functional.gelu"), dtype="float64")
    small = on_xla(
        forward("nn.functional.gelu"), "1 / 4 elements differ; greatest 1.7e-08, 3e+08 x the noise 7.4e-17"
    )
    great = on_xla(
        forward("nn.functional.gelu"), "1 / 4 elements differ; greatest 0.7, 3e+16 x the noise 7.4e-17"
    )
    assert entry(small, wide)
    assert entry(great, wide) is None
    assert entry(small, cut("nn.functional.gelu")) is None


INFINITY = Named(kind="number", text="inf")


@pytest.mark.parametrize(
    ("operator", "options", "others"),
    [
        ("nn.functional.pdist", {"p": INFINITY}, {"p": 3.0}),
        ("linalg.diagonal", {"offset": 1, "dim1": 0, "dim2": 1}, {"offset": 1}),
    ],
)
def test_a_fault_of_an_option_is_another_one_without_it(
    operator: str, options: Mapping[str, Argument], others: Mapping[str, Argument]
) -> None:
    shown = on_xla(forward(operator))
    assert entry(shown, a_program(replace(an_operator(operator), options=options)))
    assert entry(shown, a_program(replace(an_operator(operator), options=others))) is None


def test_options_are_facts_between_spaces() -> None:
    options = {"dim": -1, "p": INFINITY, "size": Items((2, 3)), "other": Reference("input"), "keepdim": True}
    assert facts(a_program(replace(an_operator("sum"), options=options)))["options"] == (
        " dim=-1  p=inf  keepdim=True "
    )


def test_a_layer_norm_that_loses_its_gradient_is_not_one_with_a_wrong_dtype() -> None:
    shown = on_xla(
        wrong("result_facts", "nn.functional.layer_norm", Stage.FORWARD, "0.output"),
        nature="nn.functional.layer_norm, requires no gradient",
    )
    case = cut("nn.functional.layer_norm")
    assert entry(shown, case)
    assert entry(replace(shown, nature="nn.functional.layer_norm, dtype"), case) is None
    assert entry(replace(shown, operator="nn.functional.rms_norm"), case) is None


def test_an_entry_of_one_operator_hides_no_other_one_when_the_command_runs_again(tmp_path: Path) -> None:
    message, case = "RuntimeError: the same words", cut("neg", "sin")
    known, unknown = (failed(operator, Stage.FORWARD, message) for operator in ("neg", "sin"))
    assert known.fingerprint == unknown.fingerprint
    about_neg = Entry(
        fingerprint=known.fingerprint, operators=("neg",), upstream="", reason="", expires=date.max
    )
    corpus = Corpus(tmp_path / "corpus")
    corpus.prepare()
    finding = Finding(
        fingerprint=known.fingerprint,
        divergence=known,
        blame="torch fault",
        hits=1,
        case=case.id,
        new_in=("campaign", 0),
    )
    corpus.save(finding, case)
    tally = Tally(campaign="campaign", ledger=Ledger(entries=(about_neg,)))
    tally.count_as_new([finding])
    comparison = Comparison(verdict="diverge", divergences=(unknown,))
    tally.count(Progress(result=CaseResult(index=1, case=case, comparisons={unknown.backend: comparison})))
    assert known_upstream(corpus, tally) == {}
    again = Tally(campaign="campaign", ledger=Ledger(entries=(about_neg,)))
    again.count_as_new([corpus.finding(finding.fingerprint)])
    assert known_upstream(corpus, again) == {}
    again.ledger = Ledger(entries=(replace(about_neg, operators=("neg", "sin")),))
    assert known_upstream(corpus, again)


def test_what_an_older_record_says_of_an_unknown_divergence_is_about_any_operator() -> None:
    made = Finding(fingerprint="a-b-c-d", divergence=forward("neg"), blame="", hits=1, case="")
    detail = "step 3, backward, 0.other: 1 / 2 elements (50.0%) differ"
    record = msgspec.to_builtins(made) | {"uncovered": [detail, "{}"], "schema": 2}
    uncovered = Finding.from_json(msgspec.json.encode(record)).uncovered
    assert uncovered
    shown = uncovered.divergence
    assert (shown.detail, shown.step, shown.tensor, shown.operator) == (detail, 3, "0.other", "")
    assert uncovered.case == "{}"

"""The project's ledger knows its own faults of operators, and not another fault of the same operator."""

from datetime import date

import pytest
from msgspec.structs import replace
from sample_findings import MISMATCH
from sample_programs import a_program, an_operator

from difftest.cases.case import Case
from difftest.cases.layout import Replicate, Shard
from difftest.findings.ledger import Entry, read_ledger
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

TODAY = date(2026, 11, 23)


def cut(*operators: str) -> Case:
    """A program of operators; the first has an operand of shape (4, 3) that is sharded along its rows."""
    return a_program(*map(an_operator, operators), sharded={"0.input": (Shard(0),)})


def wrong(check: str, operator: str, stage: Stage, tensor: str, **fields: object) -> Divergence:
    """Wrong numbers of an operator on DTensor."""
    detail = f"step 0, {stage}, {tensor}: 3 / 12 elements (25.0%) differ"
    return replace(
        MISMATCH,
        backend="torch_dtensor",
        side="torch",
        path="operators",
        check=check,
        stage=stage,
        operator=operator,
        **{"detail": detail, "nature": operator, **fields},
    )


def failed(operator: str, stage: Stage, message: str) -> Divergence:
    """An exception of an operator on DTensor."""
    detail = f"step 0, {stage}, rank 0: {message}"
    return wrong("completion", operator, stage, "", symptom=Symptom.EXCEPTION, detail=detail, cause="a cause")


def entry(shown: Divergence, case: Case) -> Entry | None:
    return read_ledger().entry(shown, case, TODAY)


def forward(operator: str, tensor: str = "0.output", **fields: object) -> Divergence:
    return wrong("loss", operator, Stage.FORWARD, tensor, **fields)


def backward(operator: str, **fields: object) -> Divergence:
    return wrong("gradients", operator, Stage.BACKWARD, "0.input", **fields)


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

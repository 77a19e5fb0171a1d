"""Made-up divergences of operators, as they show on DTensor and on XLA, for tests of the project's ledger."""

from datetime import date
from typing import Any

from sample_findings import MISMATCH
from sample_programs import a_program, an_operator
from sentences import failure, mismatch, replaced

from difftest.cases.case import Case
from difftest.cases.layout import Shard
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
    changes: dict[str, Any] = {"facts": mismatch("3 / 12 elements differ"), "nature": operator, **fields}
    return replaced(
        MISMATCH,
        backend="torch_dtensor",
        side="torch",
        path="operators",
        check=check,
        stage=stage,
        tensor=tensor,
        operator=operator,
        **changes,
    )


def failed(operator: str, stage: Stage, message: str) -> Divergence:
    """An exception of an operator on DTensor."""
    detail = f"step 0, {stage}, rank 0: {message}"
    return wrong("completion", operator, stage, "", symptom=Symptom.EXCEPTION, detail=detail, cause="a cause")


def entry(shown: Divergence, case: Case) -> Entry | None:
    """What the project's ledger knows of it."""
    return read_ledger().entry(shown, case, TODAY)


def forward(operator: str, tensor: str = "0.output", **fields: object) -> Divergence:
    """A wrong result on DTensor."""
    return wrong("loss", operator, Stage.FORWARD, tensor, **fields)


def backward(operator: str, **fields: object) -> Divergence:
    """A wrong gradient of the first operand on DTensor."""
    return wrong("gradients", operator, Stage.BACKWARD, "0.input", **fields)


def on_xla(shown: Divergence, detail: str = "", **fields: object) -> Divergence:
    """The same on XLA; `detail` replaces what it says after the place."""
    facts = (failure if shown.failure else mismatch)(detail) if detail else shown.facts
    changes: dict[str, Any] = {"facts": facts, **fields}
    return replaced(shown, backend="xla_spmd", side="xla", **changes)


def other_kinds(shown: Divergence, nature: str, detail: str) -> Divergence:
    """NaN, infinities or numbers where the oracle has something else, on XLA."""
    wrong_kinds = {"check": "finite", "symptom": Symptom.NONFINITE}
    return on_xla(shown, detail, nature=f"{shown.operator}, {nature}", **wrong_kinds)


def of(operand: str, operator: str) -> Divergence:
    """A wrong gradient of this operand on DTensor."""
    return wrong("gradients", operator, Stage.BACKWARD, f"0.{operand}")


IS_NAN = ("not numbers", "1 values are NaN where the oracle's are numbers, on ranks [0]")
WAS_NAN = ("not NaN", "1 values are infinity where the oracle's are NaN, on ranks [0]")
HIDES_NAN = ("not NaN", "1 values are numbers where the oracle's are NaN, on ranks [0]")
"""The nature of what differs, and what a detail says of it."""

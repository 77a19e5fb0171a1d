"""The columns of the long table: `COLUMNS` is the only place that says what is in it."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from difftest.cases.case_number import CaseNumber
from difftest.records.columns import MEASUREMENTS

INSTANT = "datetime64[us, UTC]"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, pandas dtype and meaning with units.

    `source` is the column of `difftest.records.columns` that it is made of. `text` makes each of its texts,
    and `number`, where the source has the recorded numbers of cases, each of its values.
    """

    name: str
    dtype: str
    meaning: str
    source: str
    text: Callable[[str], str] = str
    number: Callable[[CaseNumber], str | int] | None = None


def _of(name: str, dtype: str, meaning: str, source: str = "", text: Callable[[str], str] = str) -> Column:
    return Column(name, dtype, meaning, source or name, text)


def _number(name: str, dtype: str, meaning: str, number: Callable[[CaseNumber], str | int]) -> Column:
    return Column(name, dtype, meaning, "index", number=number)


def _measured(name: str, dtype: str, meaning: str, source: str = "") -> Column:
    return Column(name, dtype, meaning, f"{MEASUREMENTS}.{source or name}")


def _words(texts: str) -> str:
    return " ".join(msgspec.json.decode(texts))


def _environment(versions: str) -> str:
    return json.dumps(msgspec.json.decode(versions), sort_keys=True, ensure_ascii=False)


RUN = (
    _of("campaign", "category", "the campaign's name"),
    _number(
        "series",
        "category",
        "`case`; `program` beside other cases; `known`: the case of a known fault",
        lambda number: str(number.series),
    ),
    _number(
        "index", "int64", 'the number in the series, from 0 (write `t["index"]`)', lambda number: number.index
    ),
    _number(
        "input", "int64", "the input, from 0: further ones have other values", lambda number: number.input
    ),
    _of("case", "category", "the case's id: 12 hexadecimal digits of its content"),
    _of("backend", "category", "the backend that ran it; `oracle` is the expected side"),
    _of("side", "category", "the side the backend is on: `torch`, `xla` or `oracle`"),
    _of(
        "purpose",
        "category",
        "why it was run: always `campaign`; a finding's further runs are not in the table",
    ),
    _of("path", "category", "the case's parallelism path"),
    _of("mesh", "category", "the mesh in words, `dp=2 x tp=2`"),
    _of("mesh_rank", "int64", "number of mesh axes"),
    _of("world_size", "int64", "number of ranks in the mesh"),
    _of("dtype", "category", "the dtype under test"),
    _of("optimizer", "category", "the optimizer"),
    _of("loss", "category", "the loss function"),
    _of("regime", "category", "the kind of numbers in the batches"),
    _of("layers", "category", "the model's layer kinds in order, a space between", text=_words),
    _of("steps", "int64", "training steps of the case"),
    _of(
        "status", "category", "`finished`, or the symptom of the failure that ended the run", "outcome.status"
    ),
    _of(
        "stage",
        "category",
        "where a failure struck (`build`, `place`, `forward`, `backward`, `update`); null: none did",
        "outcome.stage",
    ),
    _of("failed_step", "Int64", "the step a failure struck in, from 0; null: none did", "outcome.step"),
    _of(
        "kind",
        "category",
        "a failure's kind: exception type, signal or exit status; null: none",
        "outcome.kind",
    ),
    _of("message", "category", "a failure's message; null: none", "outcome.message"),
    _of("verdict", "category", "`agree`, `diverge`, `inconclusive`; `oracle` for the oracle's own runs"),
    _of("reason", "category", "why a verdict is inconclusive; null: it is not"),
    _of(
        "fingerprint",
        "category",
        "the finding that this run is counted for: what it showed first; null: none",
        "fingerprints",
        lambda texts: next(iter(msgspec.json.decode(texts)), ""),
    ),
    _of(
        "fingerprints",
        "category",
        "the same: a run counts for one finding alone; null: none",
        text=_words,
    ),
    *(
        _of(
            f"covered_{name}",
            "category",
            f"{meaning}; null: nothing was covered",
            f"covered.{name}",
            lambda names: "" if names in {"{}", "[]"} else names,
        )
        for name, meaning in {
            "forward": "the operators dispatched forward by how their operands were sharded, a JSON object",
            "backward": "the operators dispatched backward, likewise",
            "entries": "the entries of the operator table that a program called, likewise",
            "rules": "DTensor's rules that were used, a JSON list of `operator operands>results`",
            "parts": "building blocks, features and options of training by kind, a JSON object",
        }.items()
    ),
    _of("seconds", "float64", "wall time of the run in seconds; of looking it up after `difftest compare`"),
    _of("started", INSTANT, "when the run began, UTC; when it was looked up after `difftest compare`"),
    _of("environment", "category", "versions the run reported, a JSON object", text=_environment),
)
_RUN_NUMBER = Column("run", "int64", "the run's number in this table, from 0: rows of one run share it", "")
TENSOR = (
    _measured(
        "tensor",
        "category",
        "the tensor measured; null, with all below: a run without measurements (the oracle, a failure)",
    ),
    _measured("tensor_stage", "category", "the tensor's stage: `forward`, `backward` or `update`", "stage"),
    _measured("step", "Int64", "the step where the tensor was farthest from the oracle, from 0"),
    _measured("elements", "Int64", "number of elements"),
    _measured("differing", "Int64", "number of elements beyond the tolerance"),
    _measured("undecided", "Int64", "number of elements left out: the oracle's own runs do not decide them"),
    _measured("error", "float64", "root mean square of actual - expected, in the tensor's units"),
    _measured("greatest", "float64", "greatest absolute difference, in the tensor's units"),
    _measured("scale", "float64", "root mean square of the expected values"),
    _measured("floor", "float64", "root mean square of the rounding noise (Monte Carlo)"),
    _measured(
        "ratio",
        "float64",
        "greatest error in units of the rounding noise; 1e30: infinite, or wrong where nothing rounds",
    ),
    _measured(
        "other_error",
        "float64",
        "`error` of the other side for the same tensor (the arbiter); null: none ran",
    ),
    _measured("exact", "boolean", "whether the tolerance was zero"),
)
COLUMNS = (_RUN_NUMBER, *RUN, *TENSOR)


def describe() -> str:
    """`COLUMNS` as a Markdown table."""
    rows = (f"| `{c.name}` | `{c.dtype}` | {c.meaning} |" for c in COLUMNS)
    return "\n".join(("| column | dtype | meaning |", "|---|---|---|", *rows))

"""The long table: every run of every campaign, one row a tensor that was measured.

`COLUMNS` is the only place that says what is in the table. Everything else in a report is a pure function of
this table and of the findings.
"""

import json
from array import array
from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from difftest.judge.measured import Measurement
from difftest.records.corpus import Corpus
from difftest.records.observation import Observation

INSTANT = "datetime64[us, UTC]"
_NOTHING = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, pandas dtype and meaning with units.

    `read` gets its value from an `Observation` or a `Measurement`.
    """

    name: str
    dtype: str
    meaning: str
    read: Callable[[Any], object]


def _of(name: str, dtype: str, meaning: str, attribute: str = "") -> Column:
    return Column(name, dtype, meaning, attrgetter(attribute or name))


def _failed_step(run: Observation) -> int | None:
    return None if run.outcome.status == "finished" else run.outcome.step


def _environment(run: Observation) -> str:
    return json.dumps(dict(run.environment), sort_keys=True, ensure_ascii=False)


RUN = (
    _of("campaign", "category", "the campaign's name"),
    _of("index", "int64", 'the case\'s number in its campaign, from 0 (write `t["index"]`)'),
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
    Column(
        "layers",
        "category",
        "the model's layer kinds in order, a space between",
        lambda run: " ".join(run.layers),
    ),
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
    Column("failed_step", "Int64", "the step a failure struck in, from 0; null: none did", _failed_step),
    _of(
        "kind",
        "category",
        "a failure's kind: exception type, signal or exit status; null: none",
        "outcome.kind",
    ),
    _of("message", "category", "a failure's message; null: none", "outcome.message"),
    _of("verdict", "category", "`agree`, `diverge`, `inconclusive`; `oracle` for the oracle's own runs"),
    _of("reason", "category", "why a verdict is inconclusive; null: it is not"),
    Column(
        "fingerprint",
        "category",
        "the finding that this run is counted for: what it showed first; null: none",
        lambda run: next(iter(run.fingerprints), ""),
    ),
    Column(
        "fingerprints",
        "category",
        "the same: a run counts for one finding alone; null: none",
        lambda run: " ".join(run.fingerprints),
    ),
    _of("seconds", "float64", "wall time of the run in seconds; of looking it up after `difftest compare`"),
    _of("started", INSTANT, "when the run began, UTC; when it was looked up after `difftest compare`"),
    Column("environment", "category", "versions the run reported, a JSON object", _environment),
)
_RUN_NUMBER = Column(
    "run", "int64", "the run's number in this table, from 0: rows of one run share it", lambda _: 0
)
TENSOR = (
    _of(
        "tensor",
        "category",
        "the tensor measured; null, with all below: a run without measurements (the oracle, a failure)",
    ),
    _of("tensor_stage", "category", "the tensor's stage: `forward`, `backward` or `update`", "stage"),
    _of("step", "Int64", "the step where the tensor was farthest from the oracle, from 0"),
    _of("elements", "Int64", "number of elements compared"),
    _of("differing", "Int64", "number of elements beyond the tolerance"),
    _of("error", "float64", "root mean square of actual - expected, in the tensor's units"),
    _of("greatest", "float64", "greatest absolute difference, in the tensor's units"),
    _of("scale", "float64", "root mean square of the expected values"),
    _of("floor", "float64", "root mean square of the rounding noise (Monte Carlo)"),
    _of(
        "ratio",
        "float64",
        "greatest error in units of the rounding noise; 1e30: infinite, or wrong where nothing rounds",
    ),
    _of(
        "other_error",
        "float64",
        "`error` of the other side for the same tensor (the arbiter); null: none ran",
    ),
    _of("exact", "boolean", "whether the tolerance was zero"),
)
COLUMNS = (_RUN_NUMBER, *RUN, *TENSOR)


def load(corpus: Corpus) -> pd.DataFrame:
    """The long table of `corpus`.

    It is sorted by campaign, index, case, backend, purpose and start; tensors are in the order of
    measurement.
    """
    runs: dict[str, MutableSequence[Any]] = {c.name: _gatherer(c) for c in RUN}
    tensors: dict[str, MutableSequence[Any]] = {c.name: _gatherer(c) for c in TENSOR}
    owners = array("q")
    runs_only = (observation for observation in corpus.observations() if observation.ran)
    for number, observation in enumerate(runs_only):
        _append(runs, RUN, observation)
        for measurement in observation.measurements or (_NOTHING,):
            owners.append(number)
            _append(tensors, TENSOR, measurement)
    return _join(_table(RUN, runs), _table(TENSOR, tensors), np.asarray(owners, dtype=np.int64))


def describe() -> str:
    """`COLUMNS` as a Markdown table."""
    rows = (f"| `{c.name}` | `{c.dtype}` | {c.meaning} |" for c in COLUMNS)
    return "\n".join(("| column | dtype | meaning |", "|---|---|---|", *rows))


def _gatherer(column: Column) -> MutableSequence[Any]:
    """An empty column; floats, which are many, are kept unboxed."""
    return array("d") if column.dtype == "float64" else []


def _append(
    lists: dict[str, MutableSequence[Any]],
    columns: Sequence[Column],
    source: Observation | Measurement | None,
) -> None:
    for column in columns:
        value = None if source is None else column.read(source)
        lists[column.name].append(np.nan if value is None and column.dtype == "float64" else value)


def _table(columns: Sequence[Column], lists: dict[str, MutableSequence[Any]]) -> pd.DataFrame:
    return pd.DataFrame({c.name: _series(c.dtype, lists.pop(c.name)) for c in columns})


def _series(dtype: str, values: MutableSequence[Any]) -> "pd.Series[Any]":
    if dtype == "category":
        names = sorted({v for v in values if v})
        categories = pd.Index(names, dtype="str" if names else "object")  # as Parquet gives them back
        return pd.Series(pd.Categorical([v or None for v in values], categories=categories))
    if dtype == INSTANT:
        texts = pd.Series(values, dtype="str")
        return pd.to_datetime(texts, utc=True, format="ISO8601", errors="coerce").dt.as_unit("us")
    return pd.Series(np.asarray(values) if dtype == "float64" else values, dtype=dtype)


def _join(runs: pd.DataFrame, tensors: pd.DataFrame, owners: npt.NDArray[np.int64]) -> pd.DataFrame:
    """Every tensor's row beside its run's, in the table's order."""
    runs.insert(0, "run", np.arange(len(runs), dtype=np.int64))
    runs = runs.sort_values(["campaign", "index", "case", "backend", "purpose", "started"], kind="stable")
    place = np.empty(len(runs), dtype=np.int64)
    place[runs["run"].to_numpy()] = np.arange(len(runs))
    runs["run"] = np.arange(len(runs), dtype=np.int64)
    order = np.argsort(place[owners], kind="stable")
    left: pd.DataFrame = runs.iloc[place[owners][order]].reset_index(drop=True)
    return left.join(tensors.iloc[order].reset_index(drop=True))

"""The long table: every run of every campaign, one row a tensor that was measured.

`reports.columns` says what is in it. It may be larger than memory: only what there is of each run is kept,
and the tensors are read again in slices. Everything else in a report is a pure function of this table and of
the findings.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from difftest.cases import twins
from difftest.cases.case_number import CaseNumber
from difftest.records import columns as recorded
from difftest.records.columns import MEASUREMENTS, Texts
from difftest.records.comparisons import COUNTED, Comparisons
from difftest.records.corpus import Corpus
from difftest.records.coverage import COUNTED as COVERED
from difftest.records.coverage import Coverage
from difftest.records.index import FilePart, parts
from difftest.records.lacks import COUNTED as LACKS
from difftest.records.lacks import SupportTable
from difftest.records.observation import LOST, UNSUPPORTED
from reports.columns import COLUMNS, INSTANT, RUN, TENSOR, Column

ROWS = 2**18
"""About how many rows a slice has; they take some 60 MB."""

CACHED = 32
"""How many parts of campaigns have their tensors in memory: a few in use, and some for cases out of order."""

_ORDER = ["campaign", "series", "index", "input", "case", "backend", "purpose", "started"]
_BEGINNING = tuple(column for column in RUN if column.name in {"campaign", "purpose", "started"})
_TENSOR_TEXTS = tuple(column for column in TENSOR if column.dtype == "category")
_TENSOR_SOURCES = frozenset(column.source for column in TENSOR)
_COUNTED = frozenset({*COUNTED, *COVERED, *LACKS, MEASUREMENTS})
_FIRST_READ = frozenset(column.source for column in (*RUN, *_TENSOR_TEXTS)) | _COUNTED

Mask: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The long table.

    It is sorted by campaign, number, case, backend, purpose and start; tensors are in the order of
    measurement. `runs` has the columns of runs, a row for each, and `tensors` the columns of tensors.

    * `comparisons`: by campaign, how its comparisons ended, also those without a run.
    * `on_meshes`: the same of all campaigns, with meshes in place of paths.
    * `began`: when each campaign began, the last one last.
    * `lacks`: what backends lack for operators of programs.
    * `coverage`: by campaign, what was reached.
    """

    runs: pd.DataFrame
    tensors: "Tensors"
    comparisons: Mapping[str, Comparisons]
    began: "pd.Series[pd.Timestamp]"
    lacks: SupportTable
    coverage: Mapping[str, Coverage]
    on_meshes: Comparisons = field(default_factory=Comparisons)

    def slices(self, names: Iterable[str] = (), chosen: Mask | None = None) -> Iterator[pd.DataFrame]:
        """The table in slices of whole runs, and at least one; all columns, or those with some `names`.

        `chosen` are the runs that are wanted.
        """
        wanted = set(names) or {column.name for column in COLUMNS}
        left = [name for name in self.runs.columns if name in wanted]
        right = [column for column in TENSOR if column.name in wanted]
        places = np.arange(len(self.runs)) if chosen is None else np.flatnonzero(chosen)
        rows = np.maximum(self.tensors.counts[places], 1)
        slice_of = np.cumsum(rows) // ROWS
        for each in np.split(places, np.flatnonzero(np.diff(slice_of)) + 1):
            part = self.runs[left].iloc[np.repeat(each, np.maximum(self.tensors.counts[each], 1))]
            yield part.reset_index(drop=True).assign(**self.tensors.of(each, right))

    def whole(self) -> pd.DataFrame:
        """All of the table, which must fit into memory."""
        return pd.concat(self.slices(), ignore_index=True)

    @cached_property
    def all_comparisons(self) -> Comparisons:
        """How the comparisons of all campaigns ended."""
        total = Comparisons()
        for comparisons in self.comparisons.values():
            total.include(comparisons)
        return total

    @cached_property
    def compared(self) -> pd.DataFrame:
        """One row a comparison: a case on a backend, with its worst verdict."""
        return compared_in(self.runs)


def compared_in(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a comparison among some runs, with its worst verdict."""
    ran = runs.loc[runs["purpose"] == "campaign", ["run", "case", "backend", "verdict"]]
    severity = ran["verdict"].astype("str").map(WORST_FIRST).dropna()
    worst_first = ran.loc[severity.sort_values(kind="stable").index]
    return runs.loc[worst_first.drop_duplicates(["case", "backend"]).sort_values("run").index]


PROGRAM_LOSS = "cotangent"
"""The loss of programs, and of nothing else."""


def cases_and_programs(runs: pd.DataFrame) -> tuple[int, int]:
    """How many cases and how many programs are among some runs.

    Each with its inputs is one, and with its twin, which references run.
    """
    runs = runs[runs["path"].astype("str") != twins.PATH]
    programs = runs["loss"].astype("str") == PROGRAM_LOSS
    return int(runs.loc[~programs, "case"].nunique()), int(runs.loc[programs, "case"].nunique())


WORST_FIRST = {"diverge": 0, "inconclusive": 1, "agree": 2}


class Tensors:
    """The measurements of runs: a run has `counts` successive ones in a part, from the number in `firsts` on.

    `owners` are the numbers of the runs' parts, and `categories` the texts in the columns of texts.
    """

    def __init__(
        self,
        parts: Sequence[FilePart | recorded.Columns],
        owners: Places,
        firsts: Places,
        counts: Places,
        categories: Mapping[str, "pd.Index[Any]"],
    ) -> None:
        self._parts, self._owners, self._firsts, self._categories = parts, owners, firsts, categories
        self.counts = counts
        self._read = lru_cache(CACHED)(self._columns)

    def of(self, runs: Places, wanted: Sequence[Column]) -> dict[str, Any]:
        """The wanted columns of some runs' tensors; a run without measurements has one row of nulls."""
        counts = self.counts[runs]
        rows = np.maximum(counts, 1)
        measured = np.repeat(counts > 0, rows)
        numbers = np.arange(rows.sum()) - np.repeat(np.cumsum(rows) - rows - self._firsts[runs], rows)
        owners = np.repeat(self._owners[runs], rows)
        places = [(part, np.flatnonzero(measured & (owners == part))) for part in np.unique(owners[measured])]
        return {column.name: self._gathered(column, measured, numbers, places) for column in wanted}

    def _gathered(
        self, column: Column, measured: Mask, numbers: Places, places: Sequence[tuple[int, Places]]
    ) -> Any:  # noqa: ANN401  pandas arrays have no common type
        kinds: dict[str, Any] = {"float64": np.float64, "boolean": np.bool_, "category": np.int32}
        values = np.zeros(len(measured), dtype=kinds.get(column.dtype, np.int64))
        for part, rows in places:
            values[rows] = self._read(part)[column.name][numbers[rows]]
        match column.dtype:
            case "float64":
                return np.where(measured, values, np.nan)
            case "category":
                codes = np.where(measured, values, -1)
                return pd.Categorical.from_codes(codes, categories=self._categories[column.name])
            case "boolean":
                return pd.arrays.BooleanArray(values, ~measured)
            case _:
                return pd.arrays.IntegerArray(values, ~measured)

    def _columns(self, part: int) -> dict[str, npt.NDArray[Any]]:
        """The columns of all tensors of a part; texts are numbers of categories, -1 for none."""
        source = self._parts[part]
        columns = source.columns(_TENSOR_SOURCES) if isinstance(source, FilePart) else source
        return {column.name: self._values(column, columns) for column in TENSOR}

    def _values(self, column: Column, columns: recorded.Columns) -> npt.NDArray[Any]:
        if column.dtype != "category":
            return columns.numbers(column.source)
        texts = columns.texts(column.source)
        codes: npt.NDArray[Any] = self._categories[column.name].get_indexer(pd.Index(texts.distinct))[
            texts.codes
        ]
        return codes


@dataclass(slots=True)
class _Gathered:
    """Some columns of the runs of all parts, so far."""

    columns: Sequence[Column]
    arrays: dict[str, list[npt.NDArray[Any]]] = field(default_factory=dict)
    numbers: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, columns: recorded.Columns) -> None:
        """Adds runs of a part."""
        for source in {column.source for column in self.columns}:
            values = columns.by_name[source]
            if isinstance(values, Texts):
                numbers = self.numbers.setdefault(source, {})
                codes = [numbers.setdefault(value, len(numbers)) for value in values.distinct]
                values = np.array(codes, dtype=np.int32)[values.codes]
            self.arrays.setdefault(source, []).append(values)

    def frame(self) -> pd.DataFrame:
        """A row a run, in the order in which they were added."""
        arrays = {source: np.concatenate(each) for source, each in self.arrays.items()}
        return pd.DataFrame({c.name: self._series(c, arrays.get(c.source)) for c in self.columns})

    def _series(self, column: Column, values: npt.NDArray[Any] | None) -> "pd.Series[Any]":
        if column.number and values is not None:
            distinct, places = np.unique(values, return_inverse=True)
            numbers = np.array([column.number(CaseNumber.of(each)) for each in distinct.tolist()])
            return pd.Series(numbers[places] if len(numbers) else [], dtype=column.dtype)
        if column.dtype not in {"category", INSTANT}:
            return pd.Series([] if values is None else values, dtype=column.dtype)
        codes = np.zeros(0, dtype=np.int32) if values is None else values
        texts = list(self.numbers.get(column.source, {}))
        if column.dtype == INSTANT:
            instants = pd.to_datetime(
                pd.Series(texts, dtype="str"), utc=True, format="ISO8601", errors="coerce"
            )
            return instants.dt.as_unit("us").iloc[codes].reset_index(drop=True)
        used = np.zeros(len(texts), dtype=np.bool_)
        used[codes] = True
        names = [column.text(text) if there else "" for text, there in zip(texts, used, strict=True)]
        categories = _categories(names)
        mapped = categories.get_indexer(pd.Index(names))[codes] if names else codes
        return pd.Series(pd.Categorical.from_codes(mapped, categories=categories))


def _categories(names: Iterable[str]) -> "pd.Index[Any]":
    """The names without the empty one, sorted, as Parquet gives them back."""
    there = sorted(set(names) - {""})
    return pd.Index(there, dtype="str" if there else "object")


@dataclass(slots=True)
class _Sources:
    """Where the tensors of the runs of all parts are, so far."""

    parts: list[FilePart | recorded.Columns] = field(default_factory=list)
    owners: list[Places] = field(default_factory=list)
    firsts: list[Places] = field(default_factory=list)
    counts: list[Places] = field(default_factory=list)
    names: dict[str, set[str]] = field(default_factory=dict)

    def add(self, part: FilePart, columns: recorded.Columns, chosen: Mask) -> None:
        """Adds the chosen runs of a part; the tensors of one that is not indexed stay in memory."""
        measured = columns.numbers(MEASUREMENTS)
        self.owners.append(np.full(int(np.count_nonzero(chosen)), len(self.parts)))
        self.parts.append(part if part.index else columns.only(_TENSOR_SOURCES))
        self.counts.append(measured[chosen])
        self.firsts.append((np.cumsum(measured) - measured)[chosen])
        for column in _TENSOR_TEXTS:
            self.names.setdefault(column.name, set()).update(columns.texts(column.source).distinct)

    def tensors(self, order: Places) -> Tensors:
        """The tensors of the runs in their `order`."""
        owners, firsts, counts = (
            np.concatenate([order[:0], *arrays])[order] for arrays in (self.owners, self.firsts, self.counts)
        )
        categories = {column.name: _categories(self.names.get(column.name, ())) for column in _TENSOR_TEXTS}
        return Tensors(self.parts, owners, firsts, counts, categories)


def load(corpus: Corpus | None) -> Table:
    """The long table of `corpus`, None for no runs; `UsageError` where a newer version wrote a line."""
    gathered, beginning, sources = _Gathered(RUN), _Gathered(_BEGINNING), _Sources()
    comparisons, lacks, coverage = dict[str, Comparisons](), SupportTable(), dict[str, Coverage]()
    on_meshes, files = Comparisons(), corpus.files_of_lines() if corpus else ()
    for part in (part for file in files for part in parts(file)):
        columns = part.columns(_FIRST_READ if part.index else recorded.NAMES)
        ran = ~columns.texts("verdict").among({LOST, UNSUPPORTED})
        gathered.add(columns.where(ran))
        beginning.add(columns)
        sources.add(part, columns, ran)
        own = columns.where(columns.texts("purpose").among({"campaign"}))
        for name in own.texts("campaign").distinct:
            of_campaign = own.where(own.texts("campaign").among({name}))
            comparisons.setdefault(name, Comparisons()).add(of_campaign)
            coverage.setdefault(name, Coverage()).add(of_campaign)
        lacks.add(own)
        on_meshes.add(own, by="mesh")
    runs = gathered.frame()
    order = runs.sort_values(_ORDER, kind="stable").index.to_numpy()
    runs = runs.iloc[order].reset_index(drop=True)
    runs["failed_step"] = runs["failed_step"].mask(runs["status"] == "finished")
    runs.insert(0, "run", np.arange(len(runs), dtype=np.int64))
    began = _began(beginning.frame())
    return Table(
        runs=runs,
        tensors=sources.tensors(order),
        comparisons=comparisons,
        began=began,
        lacks=lacks,
        coverage=coverage,
        on_meshes=on_meshes,
    )


def _began(t: pd.DataFrame) -> "pd.Series[pd.Timestamp]":
    """When each campaign began, the last one last."""
    own = t[t["purpose"] == "campaign"]
    return own.groupby("campaign", observed=True)["started"].min().dropna().sort_values(kind="stable")

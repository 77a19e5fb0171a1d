"""Lines of a campaign by column: a table of Arrow, whose texts are numbers into a list of the distinct ones.

The columns follow from the fields of `Observation` and `Measurement`: a nested field is called
`outcome.status`, and a value that is neither number nor text is its JSON. A column of measurements has a list
for each line. So a million lines fit into memory, and a table of them is made without a Python object for
each value.
"""

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import parquet

from difftest.judge.measured import Measurement
from difftest.records.observation import Observation

MEASUREMENTS = "measurements"
"""The number of measurements of each line, whose columns begin with this name."""

END = "end"
"""The column of where each line ends, in bytes from the first one's beginning."""

_ENCODE: Callable[[Any], bytes] = msgspec.json.Encoder(order="deterministic").encode


class Texts(NamedTuple):
    """A column of texts: line by line a number into the `distinct` ones."""

    codes: npt.NDArray[np.int32]
    distinct: Sequence[str]

    def among(self, values: Collection[str]) -> npt.NDArray[np.bool_]:
        """Which lines have one of some values."""
        matches: npt.NDArray[np.bool_] = np.array([value in values for value in self.distinct], np.bool_)
        return matches[self.codes]


def _fields(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The name of every column of a kind of record, and the type of its values."""
    for each in msgspec.structs.fields(kind):
        if isinstance(each.type, type) and issubclass(each.type, msgspec.Struct):
            yield from _fields(each.type, f"{prefix}{each.name}.")
        elif each.name != MEASUREMENTS:
            yield f"{prefix}{each.name}", each.type


def _array(kind: Any, values: Sequence[Any]) -> Any:  # noqa: ANN401  a type annotation, and an array of Arrow
    """The values of one column; a number that is None is null, and becomes NaN."""
    numbers = {float: pa.float64(), float | None: pa.float64(), bool: pa.bool_()}
    if kind in numbers or _is_whole(kind):
        return pa.array(values, numbers.get(kind, pa.int64()))
    return pa.array(values if kind is str else [_ENCODE(value).decode() for value in values], pa.string())


def _is_whole(kind: Any) -> bool:  # noqa: ANN401  a type annotation
    return isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.IntType)


_RUN, _TENSOR = tuple(_fields(Observation)), tuple(_fields(Measurement))
NAMES = (END, MEASUREMENTS, *(name for name, _ in _RUN), *(f"{MEASUREMENTS}.{name}" for name, _ in _TENSOR))
"""Every column."""

_run_values = attrgetter(*(name for name, _ in _RUN))
_tensor_values = attrgetter(*(name for name, _ in _TENSOR))


@dataclass(frozen=True, slots=True)
class Columns:
    """Some columns of some lines. Those of measurements have a list for each line."""

    table: Any
    """A `pyarrow.Table`."""

    def _column(self, name: str) -> Any:  # noqa: ANN401  an array of Arrow
        column = self.table[name].combine_chunks()
        return column.flatten() if pa.types.is_list(column.type) else column

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """The column of numbers with this name; one of measurements has a value for each of them."""
        numbers: npt.NDArray[Any] = self._column(name).to_numpy(zero_copy_only=False)
        return numbers

    def texts(self, name: str) -> Texts:
        """The column of texts with this name; one of measurements has a value for each of them."""
        column = self._column(name)
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        codes = column.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        return Texts(codes, tuple(column.dictionary.to_pylist()))

    def where(self, chosen: npt.NDArray[np.bool_]) -> "Columns":
        """The chosen lines, with their measurements."""
        return self if chosen.all() else Columns(self.table.filter(pa.array(chosen)))

    def grouped(self, *names: str) -> Iterator[tuple[tuple[str, ...], int]]:
        """The distinct combinations of some texts, each with its number of lines."""
        texts = [self.texts(name) for name in names]
        keys, numbers = np.unique(np.stack([text.codes for text in texts]), axis=1, return_counts=True)
        for key, lines in zip(keys.T.tolist(), numbers.tolist(), strict=True):
            yield tuple(text.distinct[code] for text, code in zip(texts, key, strict=True)), lines

    def only(self, names: Collection[str]) -> "Columns":
        """Those of the columns that have one of these names."""
        return Columns(self.table.select([name for name in self.table.column_names if name in names]))

    @classmethod
    def together(cls, parts: Iterable["Columns"]) -> Self:
        """The lines of several parts, which have the same columns."""
        return cls(pa.concat_tables([part.table for part in parts]).unify_dictionaries())

    @classmethod
    def of(cls, runs: Sequence[Observation], ends: Sequence[int] | None = None) -> Self:
        """The columns of `runs`; `ends` are where their lines end."""
        counts = [len(run.measurements) for run in runs]
        offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
        measured = _transposed(
            _TENSOR, [_tensor_values(measurement) for run in runs for measurement in run.measurements]
        )
        columns = {MEASUREMENTS: pa.array(counts, pa.int64())}
        if ends is not None:
            columns[END] = pa.array(ends, pa.int64())
        for (name, kind), values in zip(_RUN, _transposed(_RUN, map(_run_values, runs)), strict=True):
            array = _array(kind, values)
            columns[name] = array.dictionary_encode() if pa.types.is_string(array.type) else array
        for (name, kind), values in zip(_TENSOR, measured, strict=True):
            columns[f"{MEASUREMENTS}.{name}"] = pa.ListArray.from_arrays(offsets, _array(kind, values))
        return cls(pa.table(columns))

    def to_bytes(self) -> bytes:
        """The columns as the content of a Parquet file."""
        content = io.BytesIO()
        table = self.table.rename_columns([*map(_on_disk, self.table.column_names)])
        parquet.write_table(table, content, write_page_checksum=True)
        return content.getvalue()

    @classmethod
    def from_file(cls, file: io.BufferedReader, names: Collection[str]) -> Self:
        """The columns `names` of a Parquet file; `KeyError` where one is missing.

        `OSError` or `ValueError`, as all errors of Arrow are, where the file is damaged.
        """
        texts = [_on_disk(name) for name, _ in _RUN]
        opened = parquet.ParquetFile(file, read_dictionary=texts, page_checksum_verification=True)
        table = opened.read([*map(_on_disk, names)])
        by_name = {_on_disk(name): name for name in NAMES}
        columns = cls(table.rename_columns([by_name[name] for name in table.column_names]))
        if missing := set(names) - set(columns.table.column_names):
            raise KeyError(*missing)
        return columns


def _on_disk(name: str) -> str:
    """A column's name in a file, where a dot would lead into a nested column."""
    return name.replace(".", "/")


def _transposed(fields: Sequence[object], rows: Iterable[tuple[Any, ...]]) -> Iterable[Sequence[Any]]:
    return list(zip(*rows, strict=True)) or [()] * len(fields)

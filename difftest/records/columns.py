"""Lines of a campaign by column: numbers as arrays, and texts as numbers into a list of the distinct ones.

The columns follow from the fields of `Observation` and `Measurement`: a nested field is called
`outcome.status`, and a value that is neither number nor text is its JSON. So a million lines fit into memory,
and a table of them is made without a Python object for each value.
"""

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, Self, TypeAlias, cast

import msgspec
import numpy as np
import numpy.typing as npt

from difftest.judge.measured import Measurement
from difftest.records.observation import Observation

MEASUREMENTS = "measurements"
"""The number of measurements of each line, whose columns begin with this name."""

END = "end"
"""The column of where each line ends, in bytes from the first one's beginning."""

_ENCODE: Callable[[Any], bytes] = msgspec.json.Encoder(order="deterministic").encode
_TEXTS = ".texts"


class Texts(NamedTuple):
    """A column of texts: line by line a number into the `distinct` ones."""

    codes: npt.NDArray[np.int32]
    distinct: Sequence[str]

    def among(self, values: Collection[str]) -> npt.NDArray[np.bool_]:
        """Which lines have one of some values."""
        matches: npt.NDArray[np.bool_] = np.array([value in values for value in self.distinct], np.bool_)
        return matches[self.codes]


Column: TypeAlias = npt.NDArray[Any] | Texts


def _fields(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The name of every column of a kind of record, and the type of its values."""
    for each in msgspec.structs.fields(kind):
        if isinstance(each.type, type) and issubclass(each.type, msgspec.Struct):
            yield from _fields(each.type, f"{prefix}{each.name}.")
        elif each.name != MEASUREMENTS:
            yield f"{prefix}{each.name}", each.type


def _column(kind: Any, values: Sequence[Any]) -> Column:  # noqa: ANN401  a type annotation
    dtype = {float: np.float64, float | None: np.float64, bool: np.bool_}.get(kind)
    if dtype is not None:
        return np.array(values, dtype=dtype)  # None becomes NaN, which JSON cannot hold otherwise
    if _is_whole(kind):
        return np.array(values, dtype=np.int64)
    if kind is not str:
        values = [_ENCODE(value).decode() for value in values]
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    codes = np.fromiter(map(numbers.__getitem__, values), dtype=np.int32, count=len(values))
    return Texts(codes, tuple(numbers))


@cache  # it takes longer than the arrays of a run
def _is_whole(kind: Any) -> bool:  # noqa: ANN401  a type annotation
    return isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.IntType)


_RUN, _TENSOR = tuple(_fields(Observation)), tuple(_fields(Measurement))
NAMES = (END, MEASUREMENTS, *(name for name, _ in _RUN), *(f"{MEASUREMENTS}.{name}" for name, _ in _TENSOR))
"""Every column."""

_run_values = attrgetter(*(name for name, _ in _RUN))
_tensor_values = attrgetter(*(name for name, _ in _TENSOR))


@dataclass(frozen=True, slots=True)
class Columns:
    """Some columns of some lines, by name. Those of measurements have a value for each measurement."""

    by_name: Mapping[str, Column]

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """The column of numbers with this name."""
        return cast("npt.NDArray[Any]", self.by_name[name])

    def texts(self, name: str) -> Texts:
        """The column of texts with this name."""
        return cast("Texts", self.by_name[name])

    def where(self, chosen: npt.NDArray[np.bool_]) -> "Columns":
        """The chosen lines, with their measurements."""
        if chosen.all():
            return self
        measured = np.repeat(chosen, self.numbers(MEASUREMENTS)) if MEASUREMENTS in self.by_name else chosen

        def kept(name: str, column: Column) -> Column:
            rows = measured if name.startswith(f"{MEASUREMENTS}.") else chosen
            return Texts(column.codes[rows], column.distinct) if isinstance(column, Texts) else column[rows]

        return Columns({name: kept(name, column) for name, column in self.by_name.items()})

    def grouped(self, *names: str) -> Iterator[tuple[tuple[str, ...], int]]:
        """The distinct combinations of some texts, each with its number of lines."""
        texts = [self.texts(name) for name in names]
        keys, numbers = np.unique(np.stack([text.codes for text in texts]), axis=1, return_counts=True)
        for key, lines in zip(keys.T.tolist(), numbers.tolist(), strict=True):
            yield tuple(text.distinct[code] for text, code in zip(texts, key, strict=True)), lines

    def only(self, names: Collection[str]) -> "Columns":
        """Those of the columns that have one of these names."""
        return Columns({name: column for name, column in self.by_name.items() if name in names})

    @classmethod
    def of(cls, runs: Sequence[Observation], ends: Sequence[int] | None = None) -> Self:
        """The columns of `runs`; `ends` are where their lines end."""
        measured = [measurement for run in runs for measurement in run.measurements]
        counts = np.array([len(run.measurements) for run in runs], dtype=np.int64)
        columns: dict[str, Column] = {MEASUREMENTS: counts}
        if ends is not None:
            columns[END] = np.array(ends, dtype=np.int64)
        columns |= zip((n for n, _ in _RUN), _transposed(_RUN, map(_run_values, runs)), strict=True)
        tensors = _transposed(_TENSOR, map(_tensor_values, measured))
        columns |= zip((f"{MEASUREMENTS}.{n}" for n, _ in _TENSOR), tensors, strict=True)
        return cls(columns)

    def to_bytes(self) -> bytes:
        """The columns as the content of an `.npz` file, uncompressed and without pickle."""
        arrays = dict[str, npt.NDArray[Any]]()
        for name, column in self.by_name.items():
            if isinstance(column, Texts):
                arrays[name] = column.codes
                arrays[f"{name}{_TEXTS}"] = np.frombuffer(
                    msgspec.json.encode(column.distinct), dtype=np.uint8
                )
            else:
                arrays[name] = column
        content = io.BytesIO()
        np.savez(content, **cast("dict[str, Any]", arrays))
        return content.getvalue()

    @classmethod
    def from_file(cls, file: io.BufferedReader, names: Collection[str]) -> Self:
        """The columns `names` of an `.npz` file.

        `KeyError` where one is missing, `ValueError`, `OSError` or `zipfile.BadZipFile` where it is damaged.
        """
        with np.load(file, allow_pickle=False) as arrays:
            columns = {name: _loaded(arrays, name) for name in names}
        return cls(columns)


def _transposed(fields: Sequence[tuple[str, Any]], rows: Iterable[tuple[Any, ...]]) -> Iterator[Column]:
    columns: Iterable[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(fields)
    return (_column(kind, values) for (_, kind), values in zip(fields, columns, strict=True))


def _loaded(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> Column:
    if f"{name}{_TEXTS}" not in arrays:
        return arrays[name]
    return Texts(arrays[name], msgspec.json.decode(arrays[f"{name}{_TEXTS}"].tobytes(), type=tuple[str, ...]))

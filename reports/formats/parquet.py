"""`table.parquet`: the long table, for `pandas.read_parquet` and anything else that reads Parquet.

The schema is that of the documented columns, whatever they hold, so that files of several campaigns can be
read as one data set.
"""

import itertools
from pathlib import Path
from typing import BinaryIO, TypeAlias

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from difftest.ground.errors import UsageError
from reports.columns import COLUMNS, INSTANT
from reports.report import Report

FILENAME = "table.parquet"

Table: TypeAlias = pd.DataFrame
_TYPES = {
    "category": pa.dictionary(pa.int32(), pa.string()),
    "int64": pa.int64(),
    "Int64": pa.int64(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    INSTANT: pa.timestamp("us", tz="UTC"),
}


def render(report: Report, file: BinaryIO) -> None:
    """Writes the long table, a slice at a time."""
    schema = pa.schema([(column.name, _TYPES[column.dtype]) for column in COLUMNS])
    texts = [column.name for column in COLUMNS if column.dtype == "category"]
    parts = (
        pa.Table.from_pandas(part, schema=schema, preserve_index=False) for part in report.frame.slices()
    )
    first = next(parts)
    with parquet.ParquetWriter(file, first.schema, compression="zstd", use_dictionary=texts) as writer:
        for part in itertools.chain([first], parts):
            writer.write_table(part)


def read(folder: Path) -> Table:
    """The table in a campaign's folder; `UsageError` where the campaign ended before it was written."""
    file = folder / FILENAME
    if not file.is_file():
        msg = f"{str(folder)!r} has no {FILENAME}; the same campaign, continued, writes it"
        raise UsageError(msg)
    return pd.read_parquet(file)

"""`table.parquet`: the long table, for `pandas.read_parquet` and anything else that reads Parquet.

The schema is that of the documented columns, whatever they hold, so that files of several campaigns can be
read as one data set.
"""

import itertools
from typing import BinaryIO

import pyarrow as pa
from pyarrow import parquet

from reports.columns import COLUMNS, INSTANT
from reports.report import Report

FILENAME = "table.parquet"
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

"""`table.parquet`: the long table, for `pandas.read_parquet` and anything else that reads Parquet.

The schema is that of the documented columns, whatever they hold, so that files of several campaigns can be
read as one data set.
"""

import io

import pyarrow as pa

from reports.frame import COLUMNS, INSTANT
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


def render(report: Report) -> bytes:
    """The long table."""
    content = io.BytesIO()
    schema = pa.schema([(column.name, _TYPES[column.dtype]) for column in COLUMNS])
    report.frame.to_parquet(content, engine="pyarrow", compression="zstd", index=False, schema=schema)
    return content.getvalue()

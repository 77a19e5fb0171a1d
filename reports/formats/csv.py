"""`table.csv`: the long table, for spreadsheets and shells. A null is an empty field, infinity is `inf`."""

from typing import BinaryIO

from reports.report import Report

FILENAME = "table.csv"


def render(report: Report, file: BinaryIO) -> None:
    """Writes the long table."""
    for number, part in enumerate(report.frame.slices()):
        part.to_csv(file, mode="wb", index=False, header=not number, lineterminator="\n")

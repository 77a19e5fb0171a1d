"""`table.csv`: the long table, for spreadsheets and shells. A null is an empty field, infinity is `inf`."""

from reports.report import Report

FILENAME = "table.csv"


def render(report: Report) -> bytes:
    """The long table."""
    return report.frame.to_csv(index=False, lineterminator="\n").encode()

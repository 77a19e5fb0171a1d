"""The formats, one file each: each renders a report into one file.

To add a format, add a file here that satisfies `Format`; there is no list to extend. Its name, without `.py`,
is what `--formats` takes.
"""

from typing import BinaryIO, Protocol

from difftest.ground import plugins
from reports.report import Report


class Format(Protocol):
    """What a file in this folder declares."""

    FILENAME: str
    """The name of the rendered file in the output folder."""

    def render(self, report: Report, file: BinaryIO) -> None:
        """Writes the file's content."""
        ...


def load(name: str) -> Format:
    """The format called `name`; `UsageError` when there is none."""
    format_: Format = plugins.load(__name__, name)
    return format_

"""Formats: each module here renders a report into one file. To add a format, add a module that satisfies `Format`."""

from typing import Protocol

from reports.report import Report


class Format(Protocol):
    """What a format's module offers: the name of its file in the output folder, and the rendering."""

    FILENAME: str

    def render(self, report: Report) -> bytes:
        """The file's content."""
        ...

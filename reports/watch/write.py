"""Writes what releases changed in every form."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from difftest.findings.flips import Flip, Tried
from difftest.records.disk import cannot_write, replace_file
from reports.watch import feed, page, plain, sarif

FORMS = (plain, sarif, feed, page)


def write(
    folder: Path, flips: Iterable[Flip], tried: Iterable[Tried], problems: Mapping[str, str]
) -> tuple[Path, ...]:
    """Writes the files into a folder, each at once; the page is the last one."""
    flips, tried = tuple(flips), tuple(tried)
    for form in FORMS:
        file = folder / form.FILENAME
        try:
            replace_file(file, form.render(flips, tried, problems))
        except OSError as error:
            raise cannot_write(repr(str(file)), error, "give a folder that can be written") from error
    return tuple(folder / form.FILENAME for form in FORMS)

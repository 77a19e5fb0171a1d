"""Setting the damaged records of a corpus aside before a command reads it, and reporting each of them."""

import click

from difftest.records.corpus import Corpus
from difftest.records.damaged import set_aside


def set_aside_and_report(corpus: Corpus) -> int:
    """Sets damaged records aside, with a line for each on standard error; returns how many there were.

    `UsageError` where a record was written by a newer version, is not accessible, or is a link.
    """
    damages = set_aside(corpus)
    for damage in damages:
        place = f"moved to {damage.kept}" if damage.kept else "skipped, as its campaign is running"
        click.echo(f"difftest: damaged record: {damage.reason}; {place}", err=True)
    return len(damages)

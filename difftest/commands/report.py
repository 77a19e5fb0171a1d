"""`difftest report`: a corpus as a page, a table or a summary."""

from pathlib import Path

import click

from difftest.commands import Group
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.jobs.ask.damaged_records import set_aside_and_report
from difftest.jobs.ask.options import Json, KnownFaults, Names, own_options
from difftest.jobs.ask.targets import campaign_corpus
from difftest.jobs.campaign.listed_again import list_again
from difftest.jobs.campaign.reachable_entries import reachable_entries
from difftest.jobs.screen.output import print_json
from difftest.judge.fingerprint import readable

GROUP = Group.REPORT

MOST_NAMED = 5
"""How many of the findings that changed are named; --json names all."""


@click.command("report")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "formats",
    type=Names("reports.formats"),
    help="The formats to write.  [default: parquet,summary,markdown,html]",
)
@own_options
def command(directory: Path, formats: tuple[str, ...] | None, ledger: KnownFaults, *, as_json: Json) -> None:
    """Write the reports of a campaign's folder DIR again, with today's ledger.

    Damaged records are set aside first. A finding that the ledger knows by now is known from here on; one
    whose entry has expired is new again.
    """
    from reports.write import DEFAULT_FORMATS, write
    from workers.backends import titles

    known_faults, corpus = read_ledger(ledger), campaign_corpus(directory)
    damaged = set_aside_and_report(corpus)
    listing = list_again(corpus, known_faults, utc_today())
    chosen = formats or DEFAULT_FORMATS
    entries = reachable_entries()
    files = write(directory, chosen, called=titles(), entries=entries, ledger=known_faults)
    changed = {"known": listing.listed, "unknown": listing.delisted}
    if as_json:
        print_json({"files": list(map(str, files)), "damaged": damaged, **changed})
    else:
        for word, names in changed.items():
            if names:
                rest = f", and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
                shown = ", ".join(map(readable, names[:MOST_NAMED]))
                click.echo(f"{word} by the ledger of today: {shown}{rest}", err=True)
        click.echo("\n".join(map(str, files)))

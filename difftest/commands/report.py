"""`difftest report`: a corpus as a page, a table or a summary."""

from pathlib import Path

import click

from difftest.commands import Group
from difftest.commands.service.damage import set_aside_and_report
from difftest.commands.service.entries import reachable_entries
from difftest.commands.service.options import Names, json_option
from difftest.commands.service.output import print_json
from difftest.commands.service.targets import campaign_corpus

GROUP = Group.REPORT


@click.command("report")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "formats",
    type=Names("reports.formats"),
    help="The formats to write.  [default: parquet,summary,markdown,html]",
)
@json_option
def command(directory: Path, formats: tuple[str, ...] | None, *, as_json: bool) -> None:
    """Write the reports of DIR, the --out of a campaign, again.

    Damaged records are set aside first.
    """
    from reports.write import DEFAULT_FORMATS, write
    from workers.backends import titles

    damaged = set_aside_and_report(campaign_corpus(directory))

    chosen = formats or DEFAULT_FORMATS
    files = [str(file) for file in write(directory, chosen, called=titles(), entries=reachable_entries())]
    if as_json:
        print_json({"files": files, "damaged": damaged})
    else:
        click.echo("\n".join(files))

"""`difftest draft`: an issue for the tracker that a finding belongs to, as a file. Nothing is posted."""

from pathlib import Path

import click

from difftest.commands import Group
from difftest.findings.ledger import read_ledger
from difftest.jobs.ask.finding_path import FindingPath
from difftest.jobs.ask.options import Json, MostADay, Tracker, own_options
from difftest.jobs.filing.draft import write_issue
from difftest.jobs.filing.filing import Filing
from difftest.jobs.screen.output import print_json

GROUP = Group.REPORT


@click.command("draft")
@click.argument("target", metavar="FINDING", type=FindingPath())
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where to write the draft.  [default: issue.md in the finding's folder]",
)
@own_options
def command(target: Path, tracker: Tracker, most_a_day: MostADay, out: Path | None, *, as_json: Json) -> int:
    """Write an issue for a finding.

    Exit status 1 when the finding is reported already, does not reproduce reliably, has no script that shows
    it, or --most-a-day is reached. `difftest file` also runs the steps before this one.
    """
    filing = Filing.read(target, read_ledger())
    issue = write_issue(filing, tracker, most_a_day, out)
    if as_json:
        print_json(issue.entries())
    else:
        click.echo(issue.line(), err=issue.reason is not None)
    for line in issue.advice:
        click.echo(f"difftest: {line}", err=True)
    return int(issue.reason is not None)

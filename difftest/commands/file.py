"""`difftest file`: from a finding to a draft that is ready to be read, in one command. Nothing is posted."""

from functools import partial
from pathlib import Path

import click

from difftest.commands import Group
from difftest.findings.ledger import read_ledger
from difftest.jobs.ask.finding_path import FindingPath
from difftest.jobs.ask.options import Json, MostADay, Tracker, Trust, Workers, own_options
from difftest.jobs.ask.targets import read_finding
from difftest.jobs.filing.chain import DraftChain, HaltError, agreed
from difftest.jobs.filing.execution import machine
from difftest.jobs.screen.output import print_json
from difftest.judge.fingerprint import readable
from difftest.reduce.search import BUDGET

GROUP = Group.REPORT


@click.command("file")
@click.argument("target", metavar="FINDING", type=FindingPath())
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    default=BUDGET,
    show_default=True,
    help="The largest number of cases that the reduction runs.",
)
@own_options
def command(  # noqa: PLR0913  click hands over what the decorators declare
    target: Path,
    tracker: Tracker,
    budget: int,
    most_a_day: MostADay,
    workers: Workers,
    *,
    trust: Trust,
    as_json: Json,
) -> int:
    """Make the issue draft of a finding: run minimize, ablate, reproducer and draft, unless they are done.

    The same command continues an interrupted one. Exit status 1, with the reason, where a stage cannot go on.
    """
    folder = read_finding(target).folder
    chain = DraftChain(
        machine=machine("file", workers),
        say=partial(click.echo, err=True),
        budget=budget,
        ledger=read_ledger(),
        tracker=tracker,
        most_a_day=most_a_day,
        consent=partial(agreed, trust=trust),
    )
    try:
        issue = chain.advance(folder)
    except HaltError as halt:
        if as_json:
            print_json({"fingerprint": folder.name, "file": None, "reason": str(halt)})
        click.echo(f"{readable(folder.name)}: {halt}", err=True)
        return 1
    if as_json:
        print_json(issue.entries())
    else:
        click.echo(issue.line())
    for line in issue.advice:
        click.echo(f"difftest: {line}", err=True)
    return 0

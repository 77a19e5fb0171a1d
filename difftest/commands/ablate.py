"""`difftest ablate`: what a finding depends on, and the module where it first shows."""

from pathlib import Path

import click

from difftest.commands import Group
from difftest.findings.ablate import CHANGES, DISAPPEARS, STAYS
from difftest.jobs.ask.capacity import check_runnable
from difftest.jobs.ask.finding_path import FindingPath
from difftest.jobs.ask.options import Json, Trust, Workers, own_options
from difftest.jobs.ask.targets import FindingTarget, read_finding
from difftest.jobs.filing.ablation import ablated
from difftest.jobs.filing.execution import machine
from difftest.jobs.screen.output import print_json
from difftest.judge.fingerprint import readable
from difftest.records import evidence
from difftest.records.finding import Finding

GROUP = Group.UNDERSTAND


@click.command("ablate")
@click.argument("target", metavar="FINDING", type=FindingPath())
@own_options
def command(target: Path, workers: Workers, *, trust: Trust, as_json: Json) -> int:
    """Run a finding's reduced case again, changing one thing at a time.

    Exit status 1 when the unchanged case does not show the finding. The answers are kept with it, for drafts
    and reports. Run `difftest minimize` first.
    """
    subject = read_finding(target)
    check_runnable(subject.case, trust=trust)
    with machine("ablate", workers)(subject) as campaign:
        result = ablated(campaign, subject)
    if as_json:
        answers, located = (result.ablations, list(result.located)) if result else (None, [])
        named = {"fingerprint": subject.finding.fingerprint, "case": subject.case.id}
        print_json({**named, "ablations": answers, "located": located})
    else:
        _print(subject, result)
    return int(result is None)


def _print(subject: FindingTarget, result: Finding | None) -> None:
    name = readable(subject.finding.fingerprint)
    if result is None:
        click.echo(f"{name}: case {subject.case.id} does not show it now", err=True)
        return
    click.echo(f"{name}: case {subject.case.id}")
    for kind in (DISAPPEARS, STAYS, CHANGES, evidence.UNDECIDED):
        for name, answer in result.ablations.items():
            if answer.startswith(kind):
                click.echo(f"  {evidence.answer(kind)} when {name}{answer.removeprefix(kind)}")
    for line in result.located:
        click.echo(f"  {line}")

"""`difftest ablate`: what a finding depends on, and the module where it first shows."""

from collections.abc import Mapping
from pathlib import Path

import click

from difftest.campaign.campaign import ORACLE
from difftest.campaign.localise import LOCATED, locate
from difftest.commands import Group
from difftest.commands.service.cluster import on_cluster
from difftest.commands.service.finding_path import FindingPath
from difftest.commands.service.options import json_option, workers_option
from difftest.commands.service.output import print_json
from difftest.commands.service.ranks import check_runnable
from difftest.commands.service.targets import FindingTarget, read_finding
from difftest.findings.ablate import CHANGES, DISAPPEARS, STAYS, ablate
from difftest.records import evidence

GROUP = Group.UNDERSTAND


@click.command("ablate")
@click.argument("target", metavar="FINDING", type=FindingPath())
@workers_option
@json_option
def command(target: Path, workers: int | None, *, as_json: bool) -> int:
    """Run a finding's reduced case again, changing one thing at a time.

    Exit status 1 when the unchanged case does not show the finding. The answers are kept with it, for drafts
    and reports. Run `difftest minimize` first.
    """
    subject = read_finding(target)
    check_runnable(subject.case)
    answers, located = _run(subject, workers)
    if answers is not None:
        subject.corpus.amend(subject.finding.fingerprint, ablations=answers, located=located)
    if as_json:
        result = {"fingerprint": subject.finding.fingerprint, "case": subject.case.id}
        print_json({**result, "ablations": answers, "located": list(located)})
    else:
        _print(subject, answers, located)
    return int(answers is None)


def _run(subject: FindingTarget, workers: int | None) -> tuple[Mapping[str, str] | None, tuple[str, ...]]:
    """The answers by ablation, None where the case does not show the finding; and where it first shows."""
    from workers.backends import candidates

    finding, case = subject.finding, subject.case
    backends = candidates() | candidates((finding.divergence.backend,))
    required = (ORACLE, finding.divergence.backend)
    with on_cluster(backends, workers=workers, required=required, working="ablate") as cluster:
        campaign = cluster.campaign("ablate", subject.corpus)
        answers = ablate(campaign, finding, case, backends[finding.divergence.backend].environment(case))
        if answers is None or finding.divergence.symptom not in LOCATED:
            return answers, ()
        return answers, locate(campaign, case, finding.divergence.backend)


def _print(subject: FindingTarget, answers: Mapping[str, str] | None, located: tuple[str, ...]) -> None:
    if answers is None:
        click.echo(f"{subject.finding.fingerprint}: case {subject.case.id} does not show it now", err=True)
        return
    click.echo(f"{subject.finding.fingerprint}: case {subject.case.id}")
    for kind in (DISAPPEARS, STAYS, CHANGES, evidence.UNDECIDED):
        for name, answer in answers.items():
            if answer.startswith(kind):
                click.echo(f"  {evidence.answer(kind)} when {name}{answer.removeprefix(kind)}")
    for line in located:
        click.echo(f"  {line}")

"""`difftest ablate`: what a finding depends on, one thing changed at a time, and at which module it first shows."""

from collections.abc import Mapping
from pathlib import Path

import click

from difftest.campaign.campaign import ORACLE, Campaign
from difftest.cases.case import Case
from difftest.commands.reproducer import read_finding
from difftest.commands.service.options import check_ranks, json_option, print_json
from difftest.findings.ablate import CHANGES, DISAPPEARS, STAYS, UNTOLD, ablate
from difftest.findings.localise import locate
from difftest.judge.outcome import Symptom
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding


@click.command("ablate")
@click.argument("target", metavar="FINDING", type=click.Path(path_type=Path))
@click.option("--workers", type=click.IntRange(min=1), help="How many run at a time.  [default: the CPUs]")
@json_option
def command(target: Path, workers: int | None, *, as_json: bool) -> int:
    """Run a finding's reduced case again with one thing changed at a time; exit status 1 when it does not show as it is.

    The answers are kept with the finding, for drafts and reports; run it after `difftest minimize`.
    """
    finding, case, folder = read_finding(target)
    check_ranks(case)
    answers, located = _run(finding, case, Corpus(folder.parent), workers)
    if answers is not None:
        Corpus(folder.parent).amend(folder.name, ablations=answers, located=located)
    if as_json:
        print_json(
            {
                "fingerprint": finding.fingerprint,
                "case": case.id,
                "ablations": answers,
                "located": list(located),
            }
        )
    else:
        _tell(finding, case, answers, located)
    return int(answers is None)


def _run(
    finding: Finding, case: Case, corpus: Corpus, workers: int | None
) -> tuple[Mapping[str, str] | None, tuple[str, ...]]:
    from workers.backends import candidates
    from workers.cluster import dispatch, start

    with start.cluster(None, workers) as count:
        pool = dispatch.Pool(count)
        for name in (ORACLE, finding.divergence.backend):
            pool.require(name)
        backends = candidates() | candidates((finding.divergence.backend,))
        campaign = Campaign(
            name="ablate", backends=backends, execute=pool.execute, corpus=corpus, workers=count
        )
        answers = ablate(campaign, finding, case, backends[finding.divergence.backend].environment(case))
        measured = finding.divergence.symptom in {Symptom.MISMATCH, Symptom.NONFINITE}
        return answers, locate(
            campaign, case, finding.divergence.backend
        ) if measured and answers is not None else ()


def _tell(finding: Finding, case: Case, answers: Mapping[str, str] | None, located: tuple[str, ...]) -> None:
    if answers is None:
        click.echo(f"{finding.fingerprint}: case {case.id} does not show it now", err=True)
        return
    click.echo(f"{finding.fingerprint}: case {case.id}")
    for kind in (DISAPPEARS, STAYS, CHANGES, UNTOLD):
        for name, answer in answers.items():
            if answer.startswith(kind):
                click.echo(f"  {kind} when {name}{answer.removeprefix(kind)}")
    for line in located:
        click.echo(f"  {line}")

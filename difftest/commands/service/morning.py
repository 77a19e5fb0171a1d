"""The new unknown findings of a night on their way to drafts, so that the morning's page links scripts."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from difftest.campaign.campaign import Campaign
from difftest.clock import utc_today
from difftest.commands.service.chain import Chain, HaltError
from difftest.commands.service.drafting import MOST_A_DAY
from difftest.commands.service.targets import FindingTarget
from difftest.errors import InfrastructureError, UsageError
from difftest.findings.ledger import Ledger
from difftest.findings.triage import Status
from difftest.judge.fingerprint import readable
from difftest.records.finding import Finding

REDUCTION_BUDGET = 30
"""How many cases a night runs to reduce one finding; `difftest file` continues the reduction."""

DRAFTED = "drafted"


def file_findings(
    campaign: Campaign, ledger: Ledger, findings: Iterable[Finding], end: float, *, quiet: bool
) -> dict[str, str]:
    """What became of each finding, by fingerprint: `DRAFTED`, or why it could not go on.

    Those that `ledger` knows, or that did not come back, are left out. After the time `end` (monotonic) no
    further one is begun. `quiet`: standard output is kept for a JSON object.
    """

    @contextmanager
    def machine(_subject: FindingTarget) -> Iterator[Campaign]:
        yield campaign

    results = dict[str, str]()
    for finding in findings:
        if time.monotonic() > end:
            break
        name = finding.fingerprint
        case = campaign.corpus.case(name)
        entry = ledger.entry(finding.divergence, case, utc_today(), finding.evidence)
        if entry or finding.status != Status.REPRODUCED:
            continue
        chain = Chain(
            machine=machine,
            say=lambda line, name=name: click.echo(f"  {readable(name)}: {line}", err=True),  # type: ignore[misc]
            budget=REDUCTION_BUDGET,
            ledger=ledger,
            most_a_day=MOST_A_DAY,
        )
        try:
            chain.advance(campaign.corpus.root / name)
            results[name] = DRAFTED
        except (HaltError, UsageError, InfrastructureError) as error:
            results[name] = str(error).partition("\n")[0]
        click.echo(f"  file  {readable(name)}: {results[name]}", err=quiet)
    return results

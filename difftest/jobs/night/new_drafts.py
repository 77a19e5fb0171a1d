"""The new unknown findings of a night on their way to drafts, so that the morning's page links scripts."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from difftest.campaign.budget import GRACE_SECONDS
from difftest.campaign.campaign import Campaign
from difftest.findings.ledger import Ledger
from difftest.findings.triage import Status
from difftest.ground.clock import utc_today
from difftest.ground.errors import InfrastructureError, NoTimeError, UsageError
from difftest.jobs.ask.options import MOST_A_DAY
from difftest.jobs.ask.targets import FindingTarget
from difftest.jobs.filing.chain import DraftChain, HaltError, own_alone
from difftest.jobs.filing.script_runs import ending_at
from difftest.judge.fingerprint import readable
from difftest.records.finding import Finding

REDUCTION_BUDGET = 30
"""How many cases a night runs to reduce one finding; `difftest file` continues the reduction."""

DRAFTED = "drafted"
NO_TIME = "no time was left; `difftest file` continues"


def fileable(campaign: Campaign, ledger: Ledger, findings: Iterable[Finding]) -> list[Finding]:
    """Those of the findings that came back and that `ledger` does not know."""
    return [
        finding
        for finding in findings
        if finding.status == Status.REPRODUCED and is_unknown(campaign, ledger, finding)
    ]


def is_unknown(campaign: Campaign, ledger: Ledger, finding: Finding) -> bool:
    """Whether no entry of the ledger is about a finding of the campaign's corpus."""
    case = campaign.corpus.case(finding.fingerprint)
    return ledger.entry_of(finding, case, utc_today()) is None


def file_findings(
    campaign: Campaign, ledger: Ledger, findings: Iterable[Finding], end: float, *, quiet: bool
) -> dict[str, str]:
    """What became of each finding, by fingerprint: `DRAFTED`, or why it could not go on.

    Those that are not `fileable` are left out. After the time `end` (monotonic) no further one is begun, and
    `GRACE_SECONDS` later a script that still runs is cut. `quiet`: standard output is kept for a JSON object.
    """

    @contextmanager
    def machine(_subject: FindingTarget) -> Iterator[Campaign]:
        yield campaign

    results = dict[str, str]()
    for finding in fileable(campaign, ledger, findings):
        if time.monotonic() > end:
            break
        name = finding.fingerprint
        chain = DraftChain(
            machine=machine,
            say=lambda line, name=name: click.echo(f"  {readable(name)}: {line}", err=True),  # type: ignore[misc]
            budget=REDUCTION_BUDGET,
            ledger=ledger,
            most_a_day=MOST_A_DAY,
            consent=own_alone,
            is_open=True,
        )
        try:
            with ending_at(end + GRACE_SECONDS):
                chain.advance(campaign.corpus.root / name)
            results[name] = DRAFTED
        except NoTimeError:
            results[name] = NO_TIME
        except (HaltError, UsageError, InfrastructureError) as error:
            results[name] = str(error).partition("\n")[0]
        click.echo(f"  file  {readable(name)}: {results[name]}", err=quiet)
    return results

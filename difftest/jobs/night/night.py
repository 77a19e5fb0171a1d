"""One night: earlier findings again, new cases while there is time, then the new findings, and drafts."""

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import click

from difftest.campaign.budget import until
from difftest.campaign.campaign import Campaign
from difftest.findings.ledger import Ledger
from difftest.findings.triage import Status, Triaged, triage
from difftest.ground.clock import utc_today
from difftest.ground.errors import NODE_LOST, NoTimeError, StoppedError
from difftest.jobs.ask.capacity import is_runnable, most_ranks
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.generated_cases import recorded_tally, run_cases
from difftest.jobs.campaign.night_before import absent, night_before
from difftest.jobs.campaign.tally import NOT_DRAFTED, NOT_TRIAGED, Tally
from difftest.jobs.night.new_drafts import NO_TIME, file_findings, fileable, is_unknown
from difftest.judge.fingerprint import readable
from difftest.records.evidence import SET_ASIDE
from difftest.records.finding import Finding
from difftest.records.resume import CampaignRecord

RECHECK_SHARE = 0.5
"""The largest share of the budget for earlier findings; those that it does not reach are the first of the
next night.
"""

FILE_SHARE = 0.15
"""The share of the budget that is kept for drafts of new findings that the ledger does not know."""

RECHECKS = 1
"""How often an earlier finding is run again; one that nobody knows is first run as often as by
`difftest triage`, by the first night that has time for it.
"""


@dataclass(slots=True, kw_only=True)
class Night:
    """The results of a night.

    Of the earlier findings, some were `rechecked` and a number was `left`. `tally` is of the new cases, and
    the new findings were `triaged`. `filed` says what became of those that nobody knows, see `file_findings`.
    """

    rechecked: list[Triaged] = field(default_factory=list)
    left: int = 0
    tally: Tally = field(default_factory=Tally)
    triaged: list[Triaged] = field(default_factory=list)
    filed: dict[str, str] = field(default_factory=dict)

    def entries(self) -> dict[str, Any]:
        """The night's entries of the JSON object."""
        return {
            "replayed": _statuses(self.rechecked),
            "left": self.left,
            "triaged": _statuses(self.triaged),
            "filed": self.filed,
            "passing": [result.finding.fingerprint for result in self.rechecked if result.passes],
        }

    def summary(self) -> str:
        """What became of the earlier findings, in one line."""
        counts = Counter(result.finding.status for result in self.rechecked)
        statuses = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status]) or "none"
        left = f"; {self.left} left for the next night" if self.left else ""
        return f"ran {len(self.rechecked)} earlier findings again: {statuses}{left}"


def run_night(
    campaign: Campaign, ledger: Ledger, request: CampaignRequest, recorded: CampaignRecord
) -> Night:
    """One night on the campaign's machine and corpus, within the request's budget.

    Where the command is stopped, the night's tally says so.
    """
    night = Night(tally=recorded_tally(campaign.name, campaign.backends, campaign.corpus, recorded, ledger))
    campaign = until(campaign, request.end)
    try:
        _recheck(night, campaign, ledger, request)
        last = request.end - FILE_SHARE * (request.budget or 0.0)
        night.tally = run_cases(campaign, request, recorded, ledger, last)
        if not night.tally.stopped:
            _follow_up(night, campaign, ledger, request)
    except StoppedError as stop:
        night.tally.stopped = stop
    again = (*night.rechecked, *night.triaged)
    if (before := night_before(campaign.corpus, request.seed)) and not night.tally.stopped:
        night.tally.absent = absent(before, night.tally, request)
    night.tally.trouble += [result.trouble for result in again if result.finding.status == Status.ERROR]
    return night


def _recheck(night: Night, campaign: Campaign, ledger: Ledger, request: CampaignRequest) -> None:
    """Runs earlier findings again, within their share of the budget."""
    due = [finding for finding in _due(campaign) if not _untriaged(campaign, ledger, finding)]
    night.left = len(due)
    last = request.began + RECHECK_SHARE * (request.budget or 0.0)
    with suppress(NoTimeError):
        for one in triage(campaign, ledger, utc_today(), RECHECKS, due, most_ranks=most_ranks()):
            night.rechecked.append(one)
            night.left -= 1
            click.echo(_line("again", one), err=request.as_json)
            if time.monotonic() > last:
                break


def _follow_up(night: Night, campaign: Campaign, ledger: Ledger, request: CampaignRequest) -> None:
    """Triages the findings that nobody knows, also those that no night had time for, and drafts them."""
    waiting = [finding for finding in _due(campaign) if _untriaged(campaign, ledger, finding)]
    unknown = {finding.fingerprint: finding for finding in waiting}
    night.tally.unfinished[NOT_TRIAGED] = len(waiting)  # before: a command that is stopped says it too
    with suppress(NoTimeError):
        for one in triage(campaign, ledger, utc_today(), findings=waiting, most_ranks=most_ranks()):
            night.triaged.append(one)
            night.tally.unfinished[NOT_TRIAGED] -= 1
            unknown[one.finding.fingerprint] = one.finding
            click.echo(_line("new", one), err=request.as_json)
    night.tally.new |= {name: one for name, one in unknown.items() if name in night.tally.new}
    drafting = fileable(campaign, ledger, [result.finding for result in night.triaged])
    night.filed = file_findings(campaign, ledger, drafting, request.end, quiet=request.as_json)
    postponed = sum(reason == NO_TIME for reason in night.filed.values())
    night.tally.unfinished[NOT_DRAFTED] = len(drafting) - len(night.filed) + postponed
    for name in night.filed.keys() & night.tally.new.keys():
        night.tally.new[name] = campaign.corpus.finding(name)


def _due(campaign: Campaign) -> list[Finding]:
    """The findings that can be run again here, those whose last check is the oldest first."""
    findings = (finding for finding in campaign.corpus.findings() if _runs_here(campaign, finding))
    return sorted(findings, key=lambda finding: (finding.checked, finding.fingerprint))


def _untriaged(campaign: Campaign, ledger: Ledger, finding: Finding) -> bool:
    """Whether no night has triaged a finding that the ledger does not know.

    One that it knows was repeated when it was new, and is rechecked by later nights: that is enough.
    """
    return not finding.checked and is_unknown(campaign, ledger, finding)


def _runs_here(campaign: Campaign, finding: Finding) -> bool:
    """Whether the finding's backend is among the night's and gets its case, which is not too large either.

    A case that killed its nodes does not run again by itself.
    """
    if finding.evidence.get(SET_ASIDE) == NODE_LOST:
        return False
    case = campaign.corpus.simplest(finding.fingerprint)
    backend = campaign.backends.get(finding.divergence.backend)
    return backend is not None and is_runnable(case) and not backend.unsupported(case)


def _statuses(triaged: Iterable[Triaged]) -> dict[str, str]:
    return {result.finding.fingerprint: result.finding.status for result in triaged}


def _line(mark: str, triaged: Triaged) -> str:
    back, times = triaged.finding.returned
    return f"  {mark:<5} {triaged.finding.status:<10} {back}/{times}  {readable(triaged.finding.fingerprint)}"

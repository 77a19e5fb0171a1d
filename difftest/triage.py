"""Triage: what has become of the findings, by running each again.

A finding is believed while it comes back in at least `STABLE_LEAST` of its runs; below that it is unstable, and no report is drafted of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import partial

from difftest.case import Case
from difftest.divergence import Finding
from difftest.errors import InfrastructureError
from difftest.examine import Campaign, now
from difftest.known import Entry, Ledger
from difftest.rerun import AGREES, UNTOLD, rerun, shown

TIMES = 3
"""How often a finding is run again, unless told otherwise."""

STABLE_LEAST = 2 / 3
"""The least share of runs in which a finding must come back to be called reproduced, and to be worth a report."""


class Status(StrEnum):
    """What became of a finding."""

    FIXED = "FIXED"
    REPRODUCED = "REPRODUCED"
    UNSTABLE = "UNSTABLE"
    CHANGED = "CHANGED"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Triaged:
    """A finding as it was run again. `entry` is what the ledger knows of it; `now_shows` what it shows instead where it changed."""

    finding: Finding
    entry: Entry | None = None
    now_shows: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def passes(self) -> bool:
        """Whether the ledger knows a fault that is gone."""
        return self.entry is not None and self.finding.status == Status.FIXED


def triage(
    campaign: Campaign, ledger: Ledger, today: date, times: int = TIMES, findings: Iterable[Finding] | None = None
) -> Iterator[Triaged]:
    """Runs `findings`, or every finding of the campaign's corpus, again, a few at a time, and writes down what became of each; in order."""
    chosen = campaign.corpus.findings() if findings is None else findings
    with ThreadPoolExecutor(campaign.workers) as pool:
        yield from pool.map(partial(_triaged, campaign, ledger, today, times), list(chosen))


def status(fingerprint: str, shown: Sequence[str]) -> Status:
    """The status of a finding whose runs showed these fingerprints: `AGREES` for none, `UNTOLD` for runs that say nothing."""
    told = [seen for seen in shown if seen != UNTOLD]
    back = told.count(fingerprint)
    if not told:
        return Status.ERROR
    if back:
        return Status.REPRODUCED if back >= STABLE_LEAST * len(told) else Status.UNSTABLE
    return Status.FIXED if set(told) == {AGREES} else Status.CHANGED


def steady(finding: Finding) -> bool:
    """Whether a finding comes back surely enough for a report: in its last triage, else when it was found."""
    back, times = finding.returned if finding.returned[1] else finding.stable
    return times > 0 and back >= STABLE_LEAST * times


def _triaged(campaign: Campaign, ledger: Ledger, today: date, times: int, finding: Finding) -> Triaged:
    case = campaign.corpus.simplest(finding.fingerprint)
    seen, trouble = _runs(campaign, case, finding, times)
    told = [fingerprint for fingerprint in seen if fingerprint != UNTOLD]
    changes: Mapping[str, object] = {
        "status": str(status(finding.fingerprint, seen)),
        "returned": (told.count(finding.fingerprint), len(told)),
        "checked": now(),
    }
    checked = campaign.corpus.amend(finding.fingerprint, **changes)
    entry = ledger.entry(finding, campaign.corpus.case(finding.fingerprint), today)
    others = sorted(set(told) - {finding.fingerprint, AGREES})
    return Triaged(finding=checked, entry=entry, now_shows=tuple(others), trouble="; ".join(dict.fromkeys(trouble)))


def _runs(campaign: Campaign, case: Case, finding: Finding, times: int) -> tuple[list[str], Iterable[str]]:
    """What each run showed first, and why some say nothing."""
    if finding.backend not in campaign.backends:
        return [UNTOLD], [f"there is no backend {finding.backend!r} any more"]
    if reason := campaign.backends[finding.backend].unsupported(case):
        return [UNTOLD], [f"{finding.backend} does not support the case: {reason}"]
    seen, trouble = [], []
    for _ in range(times):
        try:
            comparison = rerun(campaign, case, finding.backend, twice=finding.check == "determinism")
        except InfrastructureError as error:
            seen.append(UNTOLD)
            trouble.append(str(error))
        else:
            seen.append(shown(comparison))
            trouble += [comparison.reason] if seen[-1] == UNTOLD else []
    return seen, trouble

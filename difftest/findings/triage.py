"""Triage: what has become of the findings, by running each again.

A finding is believed while it comes back in at least `STABLE_LEAST` of its runs; below that it is unstable, and no report is drafted of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from functools import partial
from typing import TypeAlias

from difftest.campaign.again import AGREES, UNDECIDED, first_fingerprint, rerun
from difftest.campaign.campaign import Campaign, utc_now
from difftest.cases.case import Case
from difftest.cases.layout import MOST_RANKS
from difftest.errors import InfrastructureError
from difftest.findings.ledger import Entry, Ledger
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding

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


GONE = (Status.FIXED, Status.CHANGED)
"""What is said of a finding only when its own case does not show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Triaged:
    """A finding as it was run again. `entry` is what the ledger knows of it; `now_shows` what it shows instead where it changed.

    `case` is the id of the one that decided; `trouble` says why some runs said nothing, and what else is to be known of the answer.
    """

    finding: Finding
    case: str = ""
    entry: Entry | None = None
    now_shows: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def passes(self) -> bool:
        """Whether the ledger knows a fault that is gone."""
        return self.entry is not None and self.finding.status == Status.FIXED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """A case that was run again: what each run showed first, and why some say nothing. `refused`: why it was not run at all."""

    case: Case
    shown: tuple[str, ...] = (UNDECIDED,)
    trouble: tuple[str, ...] = ()
    refused: str = ""

    def status(self, finding: Finding) -> Status:
        return status(finding.fingerprint, self.shown)


_Again: TypeAlias = Callable[[Finding, Case], _Ran]


def triage(  # noqa: PLR0913  what is run, what is known of it, and how much
    campaign: Campaign,
    ledger: Ledger,
    today: date,
    times: int = TIMES,
    findings: Iterable[Finding] | None = None,
    *,
    most_ranks: int = MOST_RANKS,
) -> Iterator[Triaged]:
    """Runs `findings`, or every finding of the campaign's corpus, again, a few at a time, and writes down what became of each; in order.

    No case of more than `most_ranks` ranks is run.
    """
    chosen = campaign.corpus.findings() if findings is None else findings
    again = partial(_runs, campaign, times, most_ranks)
    with ThreadPoolExecutor(campaign.workers) as pool:
        yield from pool.map(partial(_triaged, campaign.corpus, ledger, today, again), list(chosen))


def status(fingerprint: str, shown: Sequence[str]) -> Status:
    """The status of a finding whose runs showed these fingerprints: `AGREES` for none, `UNDECIDED` for runs that say nothing."""
    told = [seen for seen in shown if seen != UNDECIDED]
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


def _triaged(corpus: Corpus, ledger: Ledger, today: date, again: _Again, finding: Finding) -> Triaged:
    ran = _decided(corpus, finding, again)
    told = [fingerprint for fingerprint in ran.shown if fingerprint != UNDECIDED]
    changes: Mapping[str, object] = {
        "status": str(ran.status(finding)),
        "returned": (told.count(finding.fingerprint), len(told)),
        "checked": utc_now(),
    }
    checked = corpus.amend(finding.fingerprint, **changes)
    entry = ledger.entry(
        finding.fingerprint, finding.divergence.detail, corpus.case(finding.fingerprint), today
    )
    others = tuple(sorted(set(told) - {finding.fingerprint, AGREES}))
    return Triaged(
        finding=checked,
        case=ran.case.id,
        entry=entry,
        now_shows=others,
        trouble="; ".join(dict.fromkeys(ran.trouble)),
    )


def _decided(corpus: Corpus, finding: Finding, again: _Again) -> _Ran:
    """The finding's simplest case, run again; and its own, where the simplest shows the fault no more, which may be live all the same."""
    simplest, own = corpus.simplest(finding.fingerprint), corpus.case(finding.fingerprint)
    ran = again(finding, simplest)
    if simplest == own or ran.status(finding) not in GONE:
        return ran
    whole = again(finding, own)
    if whole.refused:
        return replace(ran, trouble=(*ran.trouble, f"its own case {own.id} was not run: {whole.refused}"))
    if whole.status(finding) not in GONE:
        return replace(
            whole, trouble=(f"the reduced case {simplest.id} does not show it any more", *whole.trouble)
        )
    return replace(whole, shown=ran.shown + whole.shown, trouble=ran.trouble + whole.trouble)


def _runs(campaign: Campaign, times: int, most_ranks: int, finding: Finding, case: Case) -> _Ran:
    if refused := _refusal(campaign, most_ranks, finding, case):
        return _Ran(case=case, trouble=(refused,), refused=refused)
    shows, trouble = list[str](), list[str]()
    for _ in range(times):
        try:
            comparison = rerun(campaign, case, finding.divergence.backend, check=finding.divergence.check)
        except InfrastructureError as error:
            shows.append(UNDECIDED)
            trouble.append(str(error))
        else:
            shows.append(first_fingerprint(comparison))
            trouble += [comparison.reason] if shows[-1] == UNDECIDED else []
    return _Ran(case=case, shown=tuple(shows), trouble=tuple(trouble))


def _refusal(campaign: Campaign, most_ranks: int, finding: Finding, case: Case) -> str:
    """Why a case cannot be run here; empty where it can."""
    if finding.divergence.backend not in campaign.backends:
        return f"there is no backend {finding.divergence.backend!r} any more"
    if case.world_size > most_ranks:
        return f"it has a mesh of {case.world_size} ranks; this machine allows at most {most_ranks}"
    reason = campaign.backends[finding.divergence.backend].unsupported(case)
    return f"{finding.divergence.backend} does not support the case: {reason}" if reason else ""

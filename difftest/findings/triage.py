"""Triage: what has become of the findings, by running each again.

A finding that comes back in at least `STABLE_LEAST` of its runs is reproduced; below that it is unstable, and
no report is drafted of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from functools import partial
from typing import TypeAlias

from difftest.campaign.again import AGREES, UNDECIDED, first_fingerprint, rerun
from difftest.campaign.campaign import Campaign
from difftest.cases.case import Case
from difftest.cases.layout import MOST_RANKS
from difftest.findings.ledger import Entry, Ledger
from difftest.ground.clock import utc_now
from difftest.ground.errors import InfrastructureError, NoTimeError
from difftest.records.corpus import Corpus
from difftest.records.finding import STABLE_LEAST, Finding

TIMES = 3
"""How often a finding is run again by default."""


class Status(StrEnum):
    """What became of a finding."""

    FIXED = "FIXED"
    REPRODUCED = "REPRODUCED"
    UNSTABLE = "UNSTABLE"
    CHANGED = "CHANGED"
    ERROR = "ERROR"


GONE = (Status.FIXED, Status.CHANGED)
"""Statuses that a finding gets only if its own case, too, does not show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Triaged:
    """A finding after it ran again.

    `entry` is the ledger's entry about it; `now_shows` are other fingerprints that it shows now.

    `case` is the id of the case that decided. `trouble` says why some runs decided nothing, and what limits
    the answer.
    """

    finding: Finding
    case: str = ""
    entry: Entry | None = None
    now_shows: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def passes(self) -> bool:
        """Whether the ledger has an entry about it although the fault is gone."""
        return self.entry is not None and self.finding.status == Status.FIXED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reruns:
    """The runs of one case: what each showed first, and why some decide nothing.

    `refused` says why the case did not run.
    """

    case: Case
    shown: tuple[str, ...] = (UNDECIDED,)
    trouble: tuple[str, ...] = ()
    refused: str = ""

    def status(self, finding: Finding) -> Status:
        return status(finding.fingerprint, self.shown)


_Rerun: TypeAlias = Callable[[Finding, Case], _Reruns]


def triage(  # noqa: PLR0913  a campaign, a ledger, and how much to run
    campaign: Campaign,
    ledger: Ledger,
    today: date,
    times: int = TIMES,
    findings: Iterable[Finding] | None = None,
    *,
    most_ranks: int = MOST_RANKS,
) -> Iterator[Triaged]:
    """Runs `findings`, by default all of the corpus, again, and writes what became of each to the corpus.

    A few run at a time; the results come in order. A case of more than `most_ranks` ranks does not run.
    `NoTimeError` at the first finding for which there was no time: it stays as it was.
    """
    chosen = campaign.corpus.findings() if findings is None else findings
    rerun_case = partial(_rerun, campaign, times, most_ranks)
    with ThreadPoolExecutor(campaign.workers) as pool:
        yield from pool.map(partial(_triage_one, campaign.corpus, ledger, today, rerun_case), list(chosen))


def status(fingerprint: str, shown: Sequence[str]) -> Status:
    """The status of a finding whose runs showed these fingerprints.

    `AGREES` and `UNDECIDED` stand for none.
    """
    decided = [one for one in shown if one != UNDECIDED]
    back = decided.count(fingerprint)
    if not decided:
        return Status.ERROR
    if back:
        return Status.REPRODUCED if back >= STABLE_LEAST * len(decided) else Status.UNSTABLE
    return Status.FIXED if set(decided) == {AGREES} else Status.CHANGED


def _triage_one(corpus: Corpus, ledger: Ledger, today: date, rerun_case: _Rerun, finding: Finding) -> Triaged:
    reruns = _decide(corpus, finding, rerun_case)
    decided = [fingerprint for fingerprint in reruns.shown if fingerprint != UNDECIDED]
    changes: Mapping[str, object] = {
        "status": str(reruns.status(finding)),
        "returned": (decided.count(finding.fingerprint), len(decided)),
        "checked": utc_now().isoformat(),
    }
    checked = corpus.amend(finding.fingerprint, **changes)
    entry = ledger.entry_of(finding, corpus.case(finding.fingerprint), today)
    others = tuple(sorted(set(decided) - {finding.fingerprint, AGREES}))
    return Triaged(
        finding=checked,
        case=reruns.case.id,
        entry=entry,
        now_shows=others,
        trouble="; ".join(dict.fromkeys(reruns.trouble)),
    )


def _decide(corpus: Corpus, finding: Finding, rerun_case: _Rerun) -> _Reruns:
    """Runs the finding's simplest case, and its own where the simplest no longer shows the fault.

    The fault may still be there: a reduced case can stop showing it for a reason of its own.
    """
    simplest, own = corpus.simplest(finding.fingerprint), corpus.case(finding.fingerprint)
    reduced = rerun_case(finding, simplest)
    if simplest == own or reduced.status(finding) not in GONE:
        return reduced
    whole = rerun_case(finding, own)
    if whole.refused:
        return replace(
            reduced, trouble=(*reduced.trouble, f"its own case {own.id} was not run: {whole.refused}")
        )
    if whole.status(finding) not in GONE:
        return replace(
            whole, trouble=(f"the reduced case {simplest.id} does not show it any more", *whole.trouble)
        )
    return replace(whole, shown=reduced.shown + whole.shown, trouble=reduced.trouble + whole.trouble)


def _rerun(campaign: Campaign, times: int, most_ranks: int, finding: Finding, case: Case) -> _Reruns:
    """Runs a case `times` times, one run after the other."""
    if refused := _refusal(campaign, most_ranks, finding, case):
        return _Reruns(case=case, trouble=(refused,), refused=refused)
    shows, trouble = list[str](), list[str]()
    for _ in range(times):
        try:
            comparison = rerun(campaign, case, finding.divergence.backend, check=finding.divergence.check)
        except NoTimeError:
            raise
        except InfrastructureError as error:
            shows.append(UNDECIDED)
            trouble.append(str(error))
        else:
            shows.append(first_fingerprint(comparison))
            trouble += [comparison.reason] if shows[-1] == UNDECIDED else []
    return _Reruns(case=case, shown=tuple(shows), trouble=tuple(trouble))


def _refusal(campaign: Campaign, most_ranks: int, finding: Finding, case: Case) -> str:
    """Why a case cannot run here; empty where it can."""
    if finding.divergence.backend not in campaign.backends:
        return f"there is no backend {finding.divergence.backend!r} any more"
    if case.world_size > most_ranks:
        return f"it has a mesh of {case.world_size} ranks; this machine allows at most {most_ranks}"
    reason = campaign.backends[finding.divergence.backend].unsupported(case)
    return f"{finding.divergence.backend} does not support the case: {reason}" if reason else ""

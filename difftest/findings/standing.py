"""What a reader has to do about a cause: the groups in which page and terminal show findings."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from difftest.findings.causes import Cause
from difftest.findings.faults import fixed_in, reported_at
from difftest.findings.triage import Status
from difftest.judge.outcome import Symptom
from difftest.records.finding import Finding


class Standing(StrEnum):
    """What has become of a finding, in the order in which it needs somebody."""

    UNKNOWN = "unknown"
    """Nobody has looked at it: it needs somebody."""

    UNDERSTOOD = "understood, not reported"
    """The ledger names a script that shows it, and no issue is known."""

    REPORTED = "reported"
    """Upstream has an issue."""

    FIXED = "fixed"
    """The last triage did not find it any more, or it is fixed in the newest release of its package."""

    UNSTABLE = "unstable"
    """It did not come back often enough for a report."""

    LEFT_OPEN = "left open by torch"
    """torch's documentation leaves these results open, so it is no fault."""


ORDER = tuple(Standing)
EXPLAINED = (Standing.UNDERSTOOD, Standing.REPORTED, Standing.FIXED)
"""A ledger entry, or a triage, explains these."""

DAY = len("2026-01-05")
"""The characters of the day in an ISO 8601 time."""


def standing(finding: Finding) -> Standing:
    """What a reader has to do about `finding`."""
    if finding.status == Status.FIXED:
        return Standing.FIXED
    if fixed_in(finding.upstream):
        return Standing.FIXED
    if finding.upstream:
        return Standing.REPORTED if reported_at(finding.upstream) else Standing.UNDERSTOOD
    if finding.divergence.symptom is Symptom.UNDEFINED:
        return Standing.LEFT_OPEN
    return Standing.UNSTABLE if finding.repeats[1] and not finding.steady else Standing.UNKNOWN


def of_cause(cause: Cause) -> Standing:
    """What a reader has to do about a cause: the first that one of its findings needs."""
    return min((standing(finding) for finding in cause.findings), key=ORDER.index)


def in_words(cause: Cause) -> str:
    """What a reader has to do about a cause; of a fixed one the release, or the day of the triage."""
    own = of_cause(cause)
    if own is not Standing.FIXED:
        return str(own)
    if releases := sorted({fixed_in(finding.upstream) for finding in cause.findings} - {""}):
        return f"{own} in {', '.join(releases)}"
    checked = max(finding.checked for finding in cause.findings)
    return f"{own}, as of the triage of {checked[:DAY]}" if checked else f"{own}, as of the last triage"


def grouped(causes: Iterable[Cause]) -> Mapping[Standing, tuple[Cause, ...]]:
    """The causes of each standing, in the order given; every standing is there."""
    shown = [(of_cause(cause), cause) for cause in causes]
    return {each: tuple(cause for its, cause in shown if its is each) for each in Standing}


def headline(groups: Mapping[Standing, tuple[Cause, ...]], *, alone: bool = True) -> str:
    """What to do in a few words, such as `5 causes need you. 17 are known.` and no more.

    It counts causes, as the lines do that follow it. It is empty where there is nothing, and something else
    says why that means little (not `alone`).
    """
    need, explained = len(groups[Standing.UNKNOWN]), sum(len(groups[one]) for one in EXPLAINED)
    nothing = "No findings need you." if alone else ""
    first = f"{need} cause{'s need' if need != 1 else ' needs'} you." if need else nothing
    subject = "" if need else " cause" if explained == 1 else " causes"
    rest = f"{explained}{subject} {'are' if explained != 1 else 'is'} known." if explained else ""
    return " ".join(filter(None, (first, rest)))

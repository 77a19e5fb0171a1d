"""A case that is run again on one backend, and what it shows: what reduction and triage ask of the machine."""

from collections.abc import Callable, Mapping

from difftest.campaign.campaign import ORACLE, Campaign, attempt
from difftest.campaign.case_run import compare_all
from difftest.cases.case import Case
from difftest.judge.comparator import Comparison
from difftest.judge.fingerprint import Fingerprint

UNTOLD = ""
"""Stands for the fingerprint of a run that says nothing, as when nothing could be compared."""

AGREES = "agrees"
"""Stands for the fingerprint of a run that shows nothing."""


def takes_two(check: str) -> bool:
    """Whether what this check finds shows in two runs alone."""
    return check == "determinism"


def rerun(
    campaign: Campaign, case: Case, backend: str, *, check: str = "", options: Mapping[str, str] | None = None
) -> Comparison:
    """One run in fresh processes beside the oracle, compared; or two, where what is looked for was found by a `check` that takes two.

    `options` are further environment variables of the backend's processes, not of the oracle's. `InfrastructureError` where that could not
    be had.
    """
    side = campaign.backends[backend].SIDE
    runs = {ORACLE: attempt(campaign, case, ORACLE), backend: attempt(campaign, case, backend, options)}
    again = {backend: attempt(campaign, case, backend, options).outcome} if takes_two(check) else {}
    return compare_all(campaign, case, runs, {backend: side}, again)[backend]


def shown(comparison: Comparison) -> str:
    """The fingerprint of what a run shows first; `AGREES` where nothing, `UNTOLD` where there is no telling."""
    if comparison.verdict == "inconclusive":
        return UNTOLD
    return next((divergence.fingerprint for divergence in comparison.divergences), AGREES)


def first_shown(campaign: Campaign, case: Case, backend: str, fingerprint: str) -> str:
    """What one run shows first, where `fingerprint` is looked for."""
    sought = Fingerprint.parse(fingerprint)
    return shown(rerun(campaign, case, backend, check=sought.check if sought else ""))


def shows(campaign: Campaign, backend: str, fingerprint: str, tries: int = 1) -> Callable[[Case], bool]:
    """Whether a case shows a fingerprint on a backend before anything else, in one of `tries` runs."""

    def seen(case: Case) -> bool:
        return any(first_shown(campaign, case, backend, fingerprint) == fingerprint for _ in range(tries))

    return seen

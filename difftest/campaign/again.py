"""Running a case again on one backend, for reduction, triage and ablation, to see what it shows first."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from difftest.campaign.campaign import ORACLE, Campaign, run_backend
from difftest.campaign.case_run import comparing
from difftest.campaign.confirmation import Truths
from difftest.cases.case import Case
from difftest.judge import checks
from difftest.judge.comparator import Comparison
from difftest.judge.fingerprint import Fingerprint

UNDECIDED = ""
"""Stands for the fingerprint of a run that decides nothing, as where nothing could be compared."""

AGREES = "agrees"
"""Stands for the fingerprint of a run that agrees with the oracle."""


def takes_two(check: str) -> bool:
    """Whether this check needs two runs; False for a name that is not a check's (any more)."""
    return check in checks.load_all() and checks.load(check).TRAITS.takes_two_runs


def rerun(  # noqa: PLR0913  a case, its backend, and how it runs
    campaign: Campaign,
    case: Case,
    backend: str,
    *,
    check: str = "",
    options: Mapping[str, str] | None = None,
    believed: bool = False,
) -> Comparison:
    """One run in fresh processes beside the oracle, compared.

    Two runs where `check`, the finding's, needs two. With `believed`, a mismatch that is clear with few
    samples of the oracle's noise needs no more, as a known fault does not.

    `options` are further environment variables of the backend's processes, not of the oracle's.
    `InfrastructureError` where a run could not be had.
    """
    runs = {
        ORACLE: run_backend(campaign, case, ORACLE),
        backend: run_backend(campaign, case, backend, options),
    }
    repeated = {backend: run_backend(campaign, case, backend, options).outcome} if takes_two(check) else {}
    judged = replace(campaign, explanation=lambda *_, **__: True) if believed else campaign
    return comparing(judged, case, runs, repeated, Truths(campaign, case))(backend)


def first_fingerprint(comparison: Comparison) -> str:
    """The fingerprint of what a run shows first.

    `AGREES` where nothing, `UNDECIDED` where the comparison decides nothing.
    """
    if not comparison.decides:
        return UNDECIDED
    return next((divergence.fingerprint for divergence in comparison.divergences), AGREES)


def rerun_for(campaign: Campaign, case: Case, backend: str, fingerprint: str) -> str:
    """What one more run shows first, as in `first_fingerprint`.

    The run is made as the check of `fingerprint` needs it.
    """
    sought = Fingerprint.parse(fingerprint)
    return first_fingerprint(rerun(campaign, case, backend, check=sought.check if sought else ""))


def shows(campaign: Campaign, backend: str, fingerprint: str, tries: int = 1) -> Callable[[Case], bool]:
    """A predicate of cases: whether one of `tries` runs shows the fingerprint before any other.

    A case that runs on `backend` may show several divergences; only the first counts.
    """

    def shows_first(case: Case) -> bool:
        return any(rerun_for(campaign, case, backend, fingerprint) == fingerprint for _ in range(tries))

    return shows_first

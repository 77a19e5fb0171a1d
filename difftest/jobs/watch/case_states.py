"""What a case shows on a backend: that it agrees with the oracle, or the fingerprint of what differs."""

from dataclasses import dataclass

from difftest.campaign.again import rerun
from difftest.campaign.campaign import Campaign
from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError, NoTimeError
from difftest.ground.plugins import plain
from difftest.judge.comparator import Comparison
from difftest.judge.divergence import Divergence
from difftest.judge.fingerprint import Fingerprint
from difftest.records.finding import State


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseState:
    """What a case showed: `shown` is the fingerprint, without the environment, where it differs.

    `note` says why it is `unclear`, or what differs. `divergence` is the first; None where there is none.
    """

    state: State
    shown: str = ""
    note: str = ""
    divergence: Divergence | None = None


def case_state(campaign: Campaign, case: Case, backend: str) -> CaseState:
    """Runs a case beside the oracle. `NoTimeError` where the command's time is over."""
    if reason := campaign.backends[backend].unsupported(case):
        return CaseState(state="unclear", note=reason)
    try:
        return _of(rerun(campaign, case, backend))
    except NoTimeError:
        raise
    except InfrastructureError as error:
        return CaseState(state="unclear", note=str(error))


def _of(comparison: Comparison) -> CaseState:
    if not comparison.decides:
        return CaseState(state="unclear", note=comparison.reason)
    if not comparison.divergences:
        return CaseState(state="fixed")
    first = comparison.divergences[0]
    parsed = Fingerprint.parse(first.fingerprint)
    shown = str(parsed.without_environment()) if parsed else plain(first.fingerprint)
    return CaseState(state="alive", shown=shown, note=first.detail, divergence=first)

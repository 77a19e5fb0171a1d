"""What a finding depends on: its case again with one thing changed at a time, each beside the oracle of the case as changed.

The answers are words that begin with `stays`, `disappears`, `changes` or `no telling`, kept with the finding by the ablation's name.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from difftest.campaign.again import rerun
from difftest.campaign.campaign import ORACLE, Campaign
from difftest.campaign.memo import Memo
from difftest.cases.case import Case
from difftest.errors import InfrastructureError
from difftest.findings.ablations import Ablation, Asked, ablations
from difftest.judge.comparator import Comparison
from difftest.judge.divergence import Divergence
from difftest.records.finding import Finding

STAYS, DISAPPEARS, CHANGES, UNDECIDED = "stays", "disappears", "changes", "no telling"
BENIGN = "a known benign cause"
UNSTEADY_TRIES = 3
"""How often an ablation is run before a finding that comes and goes is said to disappear."""

BENIGN_FLOORS = 1000.0
"""No rounding reaches this: an error so large has no benign cause, whatever makes it disappear."""


def ablate(
    campaign: Campaign, finding: Finding, case: Case, environment: Mapping[str, str]
) -> Mapping[str, str] | None:
    """By every ablation's name, what becomes of the finding; None where `case` does not show it as it is.

    `environment` is what the backend's runs start with. Ablations run a few at a time, beside one oracle where the case is the
    same. One that the backend cannot express, or that infrastructure spoiled, is answered with the reason.
    """
    campaign = replace(campaign, execute=Memo(campaign.execute, only=ORACLE))
    tries = 1 if finding.stable[0] == finding.stable[1] else UNSTEADY_TRIES
    found, device = next(
        (told for _ in range(tries) if (told := _first(campaign, case, finding))), (None, "")
    )
    if found is None:
        return None
    asked = Asked(
        case=case,
        backend=finding.divergence.backend,
        side=finding.divergence.side,
        framework=campaign.backends[finding.divergence.backend].FRAMEWORK,
        siblings=campaign.siblings(finding.divergence.backend),
        environment=environment,
    )
    asking = list(ablations(asked))
    with ThreadPoolExecutor(campaign.workers) as pool:
        answers = pool.map(partial(_answer, campaign, found, device, tries), asking)
        return {one.name: answer for one, answer in zip(asking, answers, strict=True)}


def _first(campaign: Campaign, case: Case, finding: Finding) -> tuple[Divergence, str] | None:
    """The finding's divergence in one run of its case as it is, and the device of that run."""
    seen = rerun(campaign, case, finding.divergence.backend, check=finding.divergence.check)
    return next(
        ((d, seen.device) for d in seen.divergences[:1] if d.fingerprint == finding.fingerprint), None
    )


def _answer(campaign: Campaign, found: Divergence, device: str, tries: int, ablation: Ablation) -> str:
    """What becomes of a divergence; one that comes and goes is gone only when it stays away in every one of `tries` runs.

    Nothing is told of a run on another `device`, as where fewer ranks than before have GPUs enough.
    """
    reason = ablation.reason or campaign.backends[ablation.backend].unsupported(ablation.case)
    if reason:
        return f"{UNDECIDED}: {reason}"
    answer = UNDECIDED
    for _ in range(tries):
        try:
            seen = rerun(
                campaign, ablation.case, ablation.backend, check=found.check, options=ablation.options
            )
        except InfrastructureError as error:
            return f"{UNDECIDED}: {error}"
        if seen.elsewhere(device):
            return f"{UNDECIDED}: it ran on {seen.device}, the finding on {device}"
        answer = _told(seen, found, ablation)
        if not answer.startswith(DISAPPEARS):
            break
    return answer


def _told(seen: Comparison, found: Divergence, ablation: Ablation) -> str:
    if seen.verdict == "inconclusive":
        return f"{UNDECIDED}: {seen.reason}"
    if not seen.divergences:
        slight = found.ratio is not None and found.ratio < BENIGN_FLOORS
        return f"{DISAPPEARS}: {BENIGN}, {ablation.benign}" if ablation.benign and slight else DISAPPEARS
    first = seen.divergences[0]
    if (first.check, first.symptom, first.cause) != (found.check, found.symptom, found.cause):
        return f"{CHANGES}: {first.fingerprint}, {first.detail}"
    return STAYS if first.ratio is None else f"{STAYS}, {first.ratio:.3g} noise floors"

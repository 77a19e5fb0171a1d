"""What a finding depends on: its case with one thing changed at a time, compared with the oracle of the same.

An answer begins with `stays`, `disappears`, `changes` or `no telling`; `finding.json` keeps it under the
ablation's name.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from difftest.campaign.again import rerun
from difftest.campaign.campaign import Campaign
from difftest.campaign.memo import oracle_once
from difftest.cases.case import Case
from difftest.findings.ablations import Ablation, Baseline, ablations
from difftest.ground.errors import InfrastructureError, NoTimeError
from difftest.judge.comparator import Comparison
from difftest.judge.divergence import Divergence
from difftest.records.evidence import UNDECIDED
from difftest.records.finding import Finding

STAYS, DISAPPEARS, CHANGES = "stays", "disappears", "changes"
BENIGN = "a known benign cause"
UNSTEADY_TRIES = 3
"""How often an ablation runs before a finding that comes and goes counts as disappeared."""

BENIGN_FLOORS = 1000.0
"""In units of the rounding noise. Rounding never reaches this, so a larger error has no benign cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The finding's divergence in a run of its unchanged case, on `device`.

    `tries` is how often each ablation may run.
    """

    divergence: Divergence
    device: str
    tries: int


def ablate(
    campaign: Campaign, finding: Finding, case: Case, environment: Mapping[str, str]
) -> Mapping[str, str] | None:
    """By every ablation's name, what becomes of the finding; None if the unchanged `case` does not show it.

    `environment` is what the backend's runs start with. Ablations run a few at a time; those of equal cases
    share one run of the oracle. An ablation that the backend cannot express, or that the infrastructure
    spoiled, is answered with the reason.
    """
    campaign = oracle_once(campaign)
    shown = _show(campaign, case, finding)
    if shown is None:
        return None
    backend = finding.divergence.backend
    baseline = Baseline(
        case=case,
        backend=backend,
        side=finding.divergence.side,
        framework=campaign.backends[backend].FRAMEWORK,
        siblings=campaign.siblings(backend),
        environment=environment,
    )
    changed = list(ablations(baseline))
    with ThreadPoolExecutor(campaign.workers) as pool:
        answers = pool.map(lambda ablation: _answer(campaign, shown, ablation), changed)
        return {ablation.name: answer for ablation, answer in zip(changed, answers, strict=True)}


def _show(campaign: Campaign, case: Case, finding: Finding) -> _Shown | None:
    """The finding in one of a few runs of its unchanged case; None where no run shows it first."""
    tries = 1 if finding.stable[0] == finding.stable[1] else UNSTEADY_TRIES
    for _ in range(tries):
        comparison = rerun(campaign, case, finding.divergence.backend, check=finding.divergence.check)
        for divergence in comparison.divergences[:1]:
            if divergence.fingerprint == finding.fingerprint:
                return _Shown(divergence=divergence, device=comparison.device, tries=tries)
    return None


def _answer(campaign: Campaign, shown: _Shown, ablation: Ablation) -> str:
    """What becomes of a divergence.

    One that comes and goes has disappeared only if none of its tries shows it.

    A run on another device than the finding's decides nothing, for example where fewer ranks than before find
    a GPU each.
    """
    reason = ablation.reason or campaign.backends[ablation.backend].unsupported(ablation.case)
    if reason:
        return f"{UNDECIDED}: {reason}"
    answer = UNDECIDED
    for _ in range(shown.tries):
        try:
            comparison = rerun(
                campaign,
                ablation.case,
                ablation.backend,
                check=shown.divergence.check,
                options=ablation.options,
            )
        except NoTimeError:
            raise  # to be continued, and no answer
        except InfrastructureError as error:
            return f"{UNDECIDED}: {error}"
        if comparison.elsewhere(shown.device):
            return f"{UNDECIDED}: it ran on {comparison.device}, the finding on {shown.device}"
        answer = _in_words(comparison, shown.divergence, ablation)
        if not answer.startswith(DISAPPEARS):
            break
    return answer


def _in_words(comparison: Comparison, divergence: Divergence, ablation: Ablation) -> str:
    """What one run of an ablation shows of the finding's `divergence`."""
    if not comparison.decides:
        return f"{UNDECIDED}: {comparison.reason}"
    if not comparison.divergences:
        slight = divergence.ratio is not None and divergence.ratio < BENIGN_FLOORS
        return f"{DISAPPEARS}: {BENIGN}, {ablation.benign}" if ablation.benign and slight else DISAPPEARS
    first = comparison.divergences[0]
    if (first.check, first.symptom, first.cause) != (divergence.check, divergence.symptom, divergence.cause):
        return f"{CHANGES}: {first.fingerprint}, {first.detail}"
    return STAYS if first.ratio is None else f"{STAYS}, {first.ratio:.3g} x the rounding noise"

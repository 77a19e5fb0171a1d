"""Findings for whose evidence a command had no time: they say so, and the next command gathers it."""

from collections.abc import Collection
from typing import Any

import msgspec

from difftest.campaign.again import takes_two
from difftest.campaign.budget import OVER, Lacking
from difftest.campaign.campaign import Campaign
from difftest.campaign.case_run import CaseResult, run_group
from difftest.campaign.memo import oracle_once
from difftest.campaign.new_finding import new_finding
from difftest.judge.blame import TwoByTwo, verdict
from difftest.judge.divergence import Divergence
from difftest.records.corpus import Corpus
from difftest.records.evidence import POSTPONED
from difftest.records.finding import Finding

GATHERED = ("blame", "evidence", "dispatched", "stable", "pieces", "environment", "located")
"""The fields of a finding that its evidence consists of."""

NOT_PLACED = TwoByTwo(single=None, other=None, other_single=None)
TWICE, ONCE = 0, 1
"""Indices of a case that runs twice, or once, on each backend."""


def gathered(campaign: Campaign, result: CaseResult, divergence: Divergence) -> Finding:
    """`new_finding`, whose evidence says so where there was no time for all of it."""
    lacking = Lacking(campaign)
    finding = new_finding(lacking.campaign, result, divergence)
    if not lacking.time:
        return finding
    return msgspec.structs.replace(finding, evidence={**finding.evidence, POSTPONED: OVER})


def postponed(corpus: Corpus, backends: Collection[str]) -> tuple[str, ...]:
    """The fingerprints of the findings on `backends` for whose evidence there was no time."""
    return tuple(
        finding.fingerprint
        for finding in corpus.findings()
        if POSTPONED in finding.evidence and finding.divergence.backend in backends
    )


def gather_postponed(campaign: Campaign) -> None:
    """Runs the cases of the `postponed` findings again, and keeps what evidence they give.

    A finding stays postponed where there is no time again, or the infrastructure fails.
    """
    for name in postponed(campaign.corpus, campaign.backends):
        divergence, case = campaign.corpus.finding(name).divergence, campaign.corpus.case(name)
        index = TWICE if takes_two(divergence.check) else ONCE
        (result,) = run_group(campaign, [(index, case)])
        if divergence.backend not in result.comparisons or result.postponed:
            continue
        shown = [each for each in result.first_divergences() if each.fingerprint == name]
        changes = _evidence(campaign, result, shown[0]) if shown else _absent(divergence)
        if POSTPONED not in changes["evidence"]:
            campaign.corpus.amend(name, **changes)


def _evidence(campaign: Campaign, result: CaseResult, divergence: Divergence) -> dict[str, Any]:
    finding = gathered(oracle_once(campaign, result), result, divergence)
    return {field: getattr(finding, field) for field in GATHERED}


def _absent(divergence: Divergence) -> dict[str, Any]:
    """The evidence of a finding whose case does not show it again."""
    stable = (0, 1)
    return {"blame": verdict(divergence.side, NOT_PLACED, stable=stable), "evidence": {}, "stable": stable}

"""From a new divergence to a finding: it runs again, and the evidence for its blame is gathered.

Only a divergence that the corpus does not have yet pays for these runs. A known fault pays for none, unless
what is there already blames another side too.
"""

from functools import partial
from typing import TypeAlias
from zlib import crc32

from difftest.campaign import references
from difftest.campaign.campaign import ORACLE, Campaign
from difftest.campaign.case_run import CaseResult
from difftest.campaign.evidence import (
    deciding_options,
    in_parallel,
    later_checks,
    placed_by_what_ran,
    rerun_or_none,
    siblings,
    two_by_two,
)
from difftest.campaign.localise import LOCATED, locate
from difftest.cases.case import Case
from difftest.cases.twins import is_twin
from difftest.ground.errors import InfrastructureError
from difftest.judge.blame import TwoByTwo, verdict
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Failure, Symptom
from difftest.judge.stage import Stage
from difftest.records import evidence
from difftest.records.finding import Finding

REPEATS = 2
"""How often a new divergence is run again in fresh processes."""

NOT_REPEATED = (0, 0)
"""What the finding of a known fault says of repetitions: it would be known without having come back, too."""

KNOWN_IN_FULL = 5
"""One in so many known faults has all the evidence of a new one in a campaign of generated cases."""


def new_finding(campaign: Campaign, result: CaseResult, divergence: Divergence) -> Finding:
    """The finding of a new divergence, after its case ran again and was placed in the 2 x 2.

    Which options decide is asked only where nothing explains the fault: that takes most of the runs, and the
    ledger's entry says it.
    """
    case, run = result.case, result.runs[divergence.backend]
    as_known = _as_known(campaign, result, divergence)
    stable, placed, words = as_known or _in_full(campaign, result, divergence)
    if lethal := _lethal_kind(campaign, result, divergence):
        words[evidence.SET_ASIDE] = lethal
    elif stable[0] and not campaign.explanation(divergence, case):  # a lethal case's variants may be lethal
        words |= deciding_options(campaign, result, divergence)
    words |= later_checks(result, divergence) | siblings(campaign, result, divergence)
    unexplained = stable[0] and (is_twin(case) or not campaign.explanation(divergence, case))
    differing = references.differ(campaign, case, divergence) if unexplained else {}
    words |= references.in_words(differing)
    return Finding(
        fingerprint=divergence.fingerprint,
        divergence=divergence,
        blame=verdict(
            divergence.side,
            placed,
            stable=None if as_known else stable,
            of_reference=is_twin(case),
            reference_differs=any(differing.values()),
        ),
        evidence=words,
        hits=1,
        case=case.id,
        paths=(case.path,),
        operators=operators_at_fault(case, divergence),
        dispatched=_dispatched(result, divergence),
        stable=stable,
        pieces=result.comparisons[divergence.backend].pieces,
        environment=dict(run.outcome.environment),
        located=_located(campaign, case, divergence) if as_known or stable[0] else (),
        first_seen=run.started,
        last_seen=run.started,
    )


def operators_at_fault(case: Case, divergence: Divergence) -> tuple[str, ...]:
    """The operator of a program that is at fault, or all of them where none is named; else empty."""
    names = {divergence.operator} if divergence.operator else {layer.title for layer in case.model.layers}
    return tuple(sorted(names)) if case.model.is_program else ()


def _located(campaign: Campaign, case: Case, divergence: Divergence) -> tuple[str, ...]:
    """The first wrong module of a module of the user's, who knows the modules; of others, ablate says it."""
    if not case.model.own or divergence.symptom not in LOCATED:
        return ()
    try:
        return locate(campaign, case, divergence.backend)
    except InfrastructureError:
        return ()


def _dispatched(result: CaseResult, divergence: Divergence) -> tuple[str, ...]:
    """What torch dispatched in the oracle's run for a program, in the pass that the divergence is of."""
    truth = result.runs[ORACLE].outcome
    if isinstance(truth, Failure) or not result.case.model.is_program:
        return ()
    reached = truth.events.reached
    layers = reached.backward if divergence.stage is Stage.BACKWARD else reached.forward
    return tuple(sorted({name for names in layers.values() for name in names}))


_Evidence: TypeAlias = tuple[tuple[int, int], TwoByTwo, dict[str, str]]
"""How often a divergence came back, its 2 x 2, and that in words."""


def _in_full(campaign: Campaign, result: CaseResult, divergence: Divergence) -> _Evidence:
    stable = _repeat(campaign, result.case, divergence, REPEATS)
    placed = two_by_two(campaign, result, divergence)
    words = {
        evidence.SINGLE: _word(diverges=placed.single),
        evidence.OTHER: _word(diverges=placed.other),
        evidence.OTHER_SINGLE: _word(diverges=placed.other_single),
    }
    return stable, placed, words


def _as_known(campaign: Campaign, result: CaseResult, divergence: Divergence) -> _Evidence | None:
    """The evidence of a known fault, for which nothing runs; None where it has that of a new one.

    One in so many has. It needs all where the other side shows the same, since a known fault is of its own
    side, and where the run hung, as one on a busy machine does.
    """
    sampled = crc32(f"{divergence.fingerprint} {result.case.id}".encode()) % campaign.known_in_full == 0
    placed = placed_by_what_ran(campaign, result, divergence)
    in_full = sampled or placed.other or divergence.symptom is Symptom.HANG
    if in_full or not campaign.explanation(divergence, result.case):
        return None
    return NOT_REPEATED, placed, {evidence.OTHER: _word(diverges=placed.other)}


def _repeat(campaign: Campaign, case: Case, divergence: Divergence, times: int) -> tuple[int, int]:
    """In how many of so many repetitions the divergence came back.

    A run that decides nothing counts in neither.
    """
    again = partial(rerun_or_none, campaign, case, divergence.backend, divergence)
    decided = [one for one in in_parallel(campaign, [again] * times) if one and one.decides]
    shown = [one.divergences[0].fingerprint for one in decided if one.divergences]
    return shown.count(divergence.fingerprint), len(decided)


def _lethal_kind(campaign: Campaign, result: CaseResult, divergence: Divergence) -> str:
    """The kind of the errors for which the run was set aside; empty where it was not."""
    outcome = result.runs[divergence.backend].outcome
    lethal = any(key[:2] == (result.case.id, divergence.backend) for key in campaign.set_aside)
    return outcome.kind if lethal and isinstance(outcome, Failure) else ""


def _word(*, diverges: bool | None) -> str:
    return evidence.UNDECIDED if diverges is None else "diverges" if diverges else "agrees"

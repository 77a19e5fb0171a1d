"""Runs what a fix is tried with, before it and with it, one case after another on one cluster."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from difftest.campaign.budget import until
from difftest.campaign.campaign import Campaign
from difftest.campaign.memo import oracle_once
from difftest.cases.case import Case
from difftest.ground.errors import NoTimeError
from difftest.ground.own_folder import own_folder
from difftest.ground.plugins import within
from difftest.jobs.campaign.cluster import on_cluster
from difftest.jobs.fixes.fault_cases import FaultCases, counterexamples
from difftest.jobs.fixes.neighbours import neighbours
from difftest.jobs.fixes.verdict import CasePair, Role, Validated, validated
from difftest.jobs.watch.case_states import CaseState, case_state
from difftest.records.corpus import Corpus


@dataclass(frozen=True, slots=True, kw_only=True)
class FixTrial:
    """A fix to be tried: the environment `before` it and the one `after` it, by name; empty is this Python.

    At most so many `neighbours` and `others`, which are cases of other faults, for each of the `subjects`,
    until `end` (monotonic).
    """

    subjects: tuple[FaultCases, ...]
    before: str
    after: str
    neighbours: int
    others: int
    end: float = float("inf")
    workers: int | None = None
    say: Callable[[str], None] = print


def tried(trial: FixTrial) -> Iterator[tuple[str, Validated]]:
    """The verdict on each fault, by its name.

    Cases for which there was no time are left out, but for the fault's own: `NoTimeError` then.
    """
    from workers.backends import candidates

    backends = dict.fromkeys(backend for subject in trial.subjects for _, backend in subject.cases)
    named = tuple(within(backend, name) for name in (trial.before, trial.after) for backend in backends)
    with own_folder("corpus") as folder, on_cluster(candidates(named), workers=trial.workers) as cluster:
        for subject in trial.subjects:
            trial.say(f"{subject.name}:")
            campaign = cluster.campaign("fixes", Corpus(Path(folder)))
            yield subject.name, _validated(trial, oracle_once(until(campaign, trial.end)), subject)


def _validated(trial: FixTrial, campaign: Campaign, subject: FaultCases) -> Validated:
    """The verdict on one fault, by the first of its cases that shows it without the fix."""
    for case, backend in subject.cases:
        own = _pair(trial, campaign, subject, (Role.CASE, f"its case {case.id}", case, backend))
        if own.was:
            break
    pairs = [own]
    if own.was:
        for role, words, one in _others(trial, subject, case, backend):
            try:
                pairs.append(_pair(trial, campaign, subject, (role, words, one, backend)))
            except NoTimeError:
                break
    return validated(pairs)


def _others(
    trial: FixTrial, subject: FaultCases, case: Case, backend: str
) -> Iterator[tuple[Role, str, Case]]:
    for kind, words, near in neighbours(case, trial.neighbours):
        yield Role.NEIGHBOUR, f"{kind}: {words}", near
    for other in counterexamples(subject, case, backend, trial.others):
        yield Role.COUNTEREXAMPLE, f"a case of another fault, {other.id}", other


def _pair(
    trial: FixTrial, campaign: Campaign, subject: FaultCases, what: tuple[Role, str, Case, str]
) -> CasePair:
    role, words, case, backend = what
    before = case_state(campaign, case, within(backend, trial.before))
    decided = before.state != "unclear"  # else the fix is not run: nothing could be compared with it
    after = case_state(campaign, case, within(backend, trial.after)) if decided else before
    pair = CasePair(
        role=role,
        words=words,
        case=case.id,
        before=before,
        after=after,
        fault_before=_fault(subject, before, case),
        fault_after=_fault(subject, after, case),
        subject=subject.name,
    )
    trial.say(f"  {pair.outcome}: {words}")
    return pair


def _fault(subject: FaultCases, state: CaseState, case: Case) -> str:
    return subject.attribute(state.divergence, case) if state.divergence else ""

"""Recording a case: its divergences become findings or are counted with them, its runs become observations.

A case's findings are written before its runs, and may be written again: a campaign that was killed anywhere
in between runs the case once more, and nothing is counted twice.
"""

from dataclasses import dataclass

import msgspec

from difftest.campaign.campaign import ORACLE, BackendRun, Campaign
from difftest.campaign.case_run import CaseResult, Missing
from difftest.campaign.new_finding import new_finding
from difftest.cases.layers import walk
from difftest.clock import utc_now
from difftest.judge.comparator import Comparison
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Failure, Outcome
from difftest.records.finding import Finding
from difftest.records.observation import Ending, Observation, in_short
from difftest.records.resume import CampaignRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One recorded case: its result, and the findings that it showed, new and recurring."""

    result: CaseResult
    new: tuple[Finding, ...] = ()
    recurring: tuple[Finding, ...] = ()


def record(campaign: Campaign, result: CaseResult, recorded: CampaignRecord) -> Progress:
    """Writes a case's divergences to their findings, then its runs to the corpus; adds both to `recorded`."""
    new: list[Finding] = []
    recurring: list[Finding] = []
    for comparison in result.comparisons.values():
        if comparison.divergences:
            finding = _record_divergence(campaign, result, comparison.divergences[0], recorded)
            (new if finding.new_in == (campaign.name, result.index) else recurring).append(finding)
    observations = [observation(campaign, result, run) for run in result.runs.values()]
    observations += [_unmade(campaign, result, name, one) for name, one in result.missing.items()]
    if observations:
        campaign.corpus.observe(*observations)
    for one in observations:
        recorded.add(one)
    return Progress(result=result, new=tuple(new), recurring=tuple(recurring))


def observation(campaign: Campaign, result: CaseResult, run: BackendRun) -> Observation:
    """One run as a line of the campaign's file, which the tables are made of."""
    comparison = result.comparisons.get(run.backend, Comparison(verdict="oracle"))
    return msgspec.structs.replace(
        _line(campaign, result, run.backend, comparison.verdict, _ending(run.outcome)),
        reason=comparison.reason,
        reason_kind=comparison.reason_kind,
        fingerprints=tuple(d.fingerprint for d in comparison.divergences[:1]),
        measurements=comparison.measurements,
        environment=dict(run.outcome.environment),
        started=run.started,
        seconds=round(run.seconds, 3),
    )


def _unmade(campaign: Campaign, result: CaseResult, backend: str, missing: Missing) -> Observation:
    """The line of a comparison that was not made."""
    line = _line(campaign, result, backend, missing.verdict, Ending(status=missing.status))
    reason, words = missing.reason, missing.reason.replace(result.case.id, "...")
    return msgspec.structs.replace(line, reason=reason, reason_kind=in_short(words))


def _line(campaign: Campaign, result: CaseResult, name: str, verdict: str, ending: Ending) -> Observation:
    """A line about a backend and the result's case, without what is known of a run."""
    case, backend = result.case, campaign.backends.get(name)
    return Observation(
        campaign=campaign.name,
        index=result.index,
        case=case.id,
        backend=name,
        side=backend.SIDE if backend else ORACLE,
        purpose=campaign.purpose,
        path=case.path,
        mesh=str(case.layout.mesh),
        mesh_rank=len(case.layout.mesh.axes),
        world_size=case.world_size,
        dtype=case.dtype,
        optimizer=case.training.optimizer,
        loss=case.training.loss,
        regime=case.data.regime,
        layers=tuple(type(layer).__name__ for _, layer in walk(case.model.layers)),
        steps=case.training.steps,
        outcome=ending,
        verdict=verdict,
        started=utc_now().isoformat(),
        seconds=0.0,
        runs=len(result.runs) + len(result.missing),
    )


def _ending(outcome: Outcome) -> Ending:
    if isinstance(outcome, Failure):
        return Ending(
            status=outcome.symptom,
            stage=outcome.stage,
            step=outcome.step,
            kind=outcome.kind,
            message=outcome.message,
        )
    return Ending(status="finished")


def _record_divergence(
    campaign: Campaign, result: CaseResult, divergence: Divergence, recorded: CampaignRecord
) -> Finding:
    """The finding of a divergence: a new one, or the one that is there with this case counted."""
    indices = recorded.sightings.setdefault(divergence.fingerprint, set())
    indices.add(result.index)
    run = result.runs[divergence.backend]
    with campaign.corpus.locked():
        if counted := _count_case(campaign, divergence, run, len(indices)):
            return counted
    finding = new_finding(campaign, result, divergence)
    with campaign.corpus.locked():
        # Another campaign may have written it while this one gathered evidence.
        if counted := _count_case(campaign, divergence, run, len(indices)):
            return counted
        new = msgspec.structs.replace(
            finding,
            hits=len(indices),
            cases_by_campaign={campaign.name: len(indices)},
            new_in=(campaign.name, result.index),
        )
        campaign.corpus.save(new, result.case)
    return new


def _count_case(campaign: Campaign, divergence: Divergence, run: BackendRun, cases: int) -> Finding | None:
    """The finding of a divergence in the corpus, now shown by `cases` cases of the campaign.

    None where it is new.

    The number is set and not raised, so that a case which runs again is not counted again.
    """
    if divergence.fingerprint not in campaign.corpus.fingerprints():
        return None
    finding = campaign.corpus.finding(divergence.fingerprint)
    counts = {**(finding.cases_by_campaign or {"": finding.hits})}
    counts[campaign.name] = max(cases, counts.get(campaign.name, 0))
    counted = msgspec.structs.replace(
        finding,
        hits=sum(counts.values()),
        cases_by_campaign=counts,
        paths=tuple(sorted({*finding.paths, divergence.path})),
        last_seen=max(finding.last_seen, run.started),
    )
    campaign.corpus.put(counted)
    return counted

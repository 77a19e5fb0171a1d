"""Recording cases: divergences become findings or are counted with them, runs become observations.

Cases that are complete at the same time are recorded together, as a write takes milliseconds to reach the
disk. Their findings are written before their runs, and may be written again: a campaign that was killed
anywhere in between runs the cases once more, and nothing is counted twice. So does one whose time ended
before all of a case was compared: the case has fewer lines than it names.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from difftest.campaign.campaign import ORACLE, BackendRun, Campaign
from difftest.campaign.case_run import POSTPONED, CaseResult, Missing
from difftest.campaign.coverage import covered
from difftest.campaign.memo import oracle_once
from difftest.campaign.new_finding import operators_at_fault
from difftest.campaign.postponed import gathered
from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.ground.clock import utc_now
from difftest.ground.errors import InfrastructureError
from difftest.judge.comparator import Comparison
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Failure, Outcome
from difftest.records.columns import Columns
from difftest.records.evidence import DECIDED_ELSEWHERE, with_decided
from difftest.records.finding import Finding
from difftest.records.observation import Ending, Observation, in_short
from difftest.records.own_cases import remember_finding
from difftest.records.resume import CampaignRecord

Complete: TypeAlias = tuple[CaseResult, Mapping[str, Finding]]
"""A case that ran, and by fingerprint the findings that it may be the first to show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One recorded case: its result, and the findings that it showed, new and recurring."""

    result: CaseResult
    new: tuple[Finding, ...] = ()
    recurring: tuple[Finding, ...] = ()


def record(campaign: Campaign, complete: Sequence[Complete], recorded: CampaignRecord) -> list[Progress]:
    """Writes divergences to their findings, then the cases' runs to the corpus; adds both to `recorded`."""
    progress = _record_findings(campaign, complete, recorded)
    observations = list[Observation]()
    for result in (result for result, _ in complete if result.comparisons or not result.postponed):
        blind = campaign.blind(result.case, result.comparisons)
        for name, run in result.runs.items():
            line = observation(campaign, result, run)
            observations.append(msgspec.structs.replace(line, blind=blind.get(name, {})))
        unmade = {name: one for name, one in result.missing.items() if one.status != POSTPONED}
        observations += [_unmade(campaign, result, name, one) for name, one in unmade.items()]
    if observations:
        campaign.corpus.observe(*observations)
        recorded.add(Columns.of(observations))
    recorded.cases -= {(result.index, result.case.id) for result, _ in complete if result.postponed}
    return progress


def _record_findings(
    campaign: Campaign, complete: Sequence[Complete], recorded: CampaignRecord
) -> list[Progress]:
    """Writes each finding once, however many of the cases showed it."""
    progress = list[Progress]()
    with campaign.corpus.locked():
        findings = _Findings(campaign, recorded)
        for result, evidence in complete:
            shown = [
                findings.count(result, divergence, evidence) for divergence in result.first_divergences()
            ]
            here = (campaign.name, result.index)
            new = tuple(finding for finding in shown if finding.new_in == here)
            recurring = tuple(finding for finding in shown if finding.new_in != here)
            progress.append(Progress(result=result, new=new, recurring=recurring))
        findings.write()
    return progress


def observation(campaign: Campaign, result: CaseResult, run: BackendRun) -> Observation:
    """One run as a line of the campaign's file, which the tables are made of."""
    comparison = result.comparisons.get(run.backend, Comparison(verdict="oracle"))
    return msgspec.structs.replace(
        _line(campaign, result, run.backend, comparison.verdict, _ending(run.outcome)),
        reason=comparison.reason,
        reason_kind=comparison.reason_kind,
        fingerprints=tuple(d.fingerprint for d in comparison.divergences[:1]),
        measurements=comparison.measurements,
        lacks=comparison.lacks,
        canary=comparison.canary,
        losses=run.losses,
        environment=dict(run.outcome.environment),
        covered=covered(
            result.case,
            result.runs[ORACLE].outcome,
            run.outcome,
            comparison.verdict,
            comparison.measurements,
        ),
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


class _Findings:
    """The findings that some cases showed, changed in memory until they are written.

    The caller holds the corpus's lock.
    """

    def __init__(self, campaign: Campaign, recorded: CampaignRecord) -> None:
        self._campaign, self._recorded = campaign, recorded
        self._changed, self._cases = dict[str, Finding](), dict[str, Case]()

    def count(self, result: CaseResult, divergence: Divergence, evidence: Mapping[str, Finding]) -> Finding:
        """The finding of a divergence: a new one, or the one that is there with this case counted.

        The number of cases is set and not raised, so that a case which runs again is not counted again.
        """
        name, corpus = divergence.fingerprint, self._campaign.corpus
        indices = self._recorded.sightings.setdefault(name, set())
        indices.add(result.index)
        if name in self._changed or corpus.holds(name):
            # Another campaign may have written it while this one gathered evidence.
            there = self._changed.get(name) or corpus.finding(name)
            counted = self._counted(there, divergence, result, len(indices))
            finding = _with_decided(counted, evidence.get(name))
        else:
            # There is no evidence if somebody removed the finding after the case was examined.
            made = evidence.get(name) or gathered(oracle_once(self._campaign), result, divergence)
            finding = msgspec.structs.replace(
                made,
                hits=len(indices),
                cases_by_campaign={self._campaign.name: len(indices)},
                new_in=(self._campaign.name, result.index),
            )
            self._cases[name] = result.case
        self._changed[name] = finding
        return finding

    def _counted(self, finding: Finding, divergence: Divergence, result: CaseResult, cases: int) -> Finding:
        """The finding, now shown by `cases` cases of the campaign."""
        counts = {**(finding.cases_by_campaign or {"": finding.hits})}
        counts[self._campaign.name] = max(cases, counts.get(self._campaign.name, 0))
        return msgspec.structs.replace(
            finding,
            hits=sum(counts.values()),
            cases_by_campaign=counts,
            paths=tuple(sorted({*finding.paths, divergence.path})),
            operators=tuple(sorted({*finding.operators, *operators_at_fault(result.case, divergence)})),
            last_seen=max(finding.last_seen, result.runs[divergence.backend].started),
        )

    def write(self) -> None:
        """Writes the findings that were changed, each once, and the cases of the new ones."""
        for name, finding in self._changed.items():
            if name in self._cases:
                self._campaign.corpus.save(finding, self._cases[name])
                self._remember(name)
            else:
                self._campaign.corpus.put(finding)

    def _remember(self, name: str) -> None:
        """Makes a new finding the user's own; where the state cannot be written, its script needs consent."""
        if not self._campaign.foreign:
            with suppress(InfrastructureError):
                remember_finding(name, self._cases[name])


def _with_decided(finding: Finding, made: Finding | None) -> Finding:
    """The finding, with the options that the evidence of a later case says to decide there."""
    options = made.evidence.get(DECIDED_ELSEWHERE, "").split(", ") if made else ()
    return msgspec.structs.replace(finding, evidence=with_decided(finding.evidence, options))

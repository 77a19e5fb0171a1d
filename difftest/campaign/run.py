"""A campaign: run cases, compare, and turn what diverges into findings.

Search and execution come in as callables, so all of this is tested on fakes in milliseconds. Cases are examined concurrently, and
recorded in the order of their indices, so that what a campaign finds does not depend on timing. A case's findings are written before its
runs, and may be written again: a campaign that was killed anywhere in between runs the case once more, and nothing is counted twice.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from difftest.campaign.campaign import ORACLE, Campaign, Run
from difftest.campaign.case_run import Examined, examine
from difftest.campaign.new_finding import new_finding
from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.judge.comparator import Comparison
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Failure, Outcome
from difftest.records.finding import Finding
from difftest.records.observation import Ending, Observation
from difftest.records.resume import Recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One more case is recorded: the findings it hit, new ones apart."""

    examined: Examined
    new: tuple[Finding, ...] = ()
    known: tuple[Finding, ...] = ()


def run(
    campaign: Campaign, cases: Iterable[tuple[int, Case]], recorded: Recorded | None = None
) -> Iterator[Progress]:
    """Examines `cases` a few at a time, drawn as they are needed, and records each; yields once a case, in order.

    What is `recorded` already is passed over.
    """
    before = recorded or Recorded()
    with ThreadPoolExecutor(campaign.workers) as pool:
        waiting: deque[Future[Examined]] = deque()
        for index, case in cases:
            if (index, case.id) in before.cases:
                continue
            waiting.append(pool.submit(examine, campaign, index, case))
            if len(waiting) > campaign.workers:
                yield record(campaign, waiting.popleft().result(), before)
        while waiting:
            yield record(campaign, waiting.popleft().result(), before)


def record(campaign: Campaign, examined: Examined, recorded: Recorded) -> Progress:
    """Writes a case's divergences to their findings and then its runs to the corpus, and adds both to what is `recorded`."""
    new: list[Finding] = []
    known: list[Finding] = []
    for comparison in examined.comparisons.values():
        if comparison.divergences:
            finding = _find(campaign, examined, comparison.divergences[0], recorded)
            (new if finding.unannounced == (campaign.name, examined.index) else known).append(finding)
    if observations := [observation(campaign, examined, ran) for ran in examined.runs.values()]:
        campaign.corpus.observe(*observations)
    for seen in observations:
        recorded.add(seen)
    return Progress(examined=examined, new=tuple(new), known=tuple(known))


def observation(campaign: Campaign, examined: Examined, ran: Run) -> Observation:
    """One run as the line that the tables are made of."""
    case, comparison = examined.case, examined.comparisons.get(ran.backend, Comparison(verdict="oracle"))
    backend = campaign.backends.get(ran.backend)
    return Observation(
        campaign=campaign.name,
        index=examined.index,
        case=case.id,
        backend=ran.backend,
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
        outcome=_ending(ran.outcome),
        verdict=comparison.verdict,
        reason=comparison.reason,
        fingerprints=tuple(d.fingerprint for d in comparison.divergences[:1]),
        measurements=comparison.measurements,
        environment=dict(ran.outcome.environment),
        started=ran.started,
        seconds=round(ran.seconds, 3),
        runs=len(examined.runs) + examined.lost,
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


def _find(campaign: Campaign, examined: Examined, divergence: Divergence, recorded: Recorded) -> Finding:
    """The finding of a divergence, new or seen once more."""
    indices = recorded.sightings.setdefault(divergence.fingerprint, set())
    indices.add(examined.index)
    ran = examined.runs[divergence.backend]
    with campaign.corpus.locked():
        if known := _again(campaign, divergence, ran, len(indices)):
            return known
    found = new_finding(campaign, examined, divergence, ran)
    with campaign.corpus.locked():
        if known := _again(campaign, divergence, ran, len(indices)):  # another campaign found it meanwhile
            return known
        counted = {
            "hits": len(indices),
            "cases_by_campaign": {campaign.name: len(indices)},
            "unannounced": (campaign.name, examined.index),
        }
        new = msgspec.structs.replace(found, **counted)
        campaign.corpus.save(new, examined.case)
    return new


def _again(campaign: Campaign, divergence: Divergence, ran: Run, times: int) -> Finding | None:
    """The finding of a divergence that the corpus knows, seen by so many cases of the campaign; None when it is new.

    The number is set and not raised, so that a case which is run again is not counted again.
    """
    if divergence.fingerprint not in campaign.corpus.fingerprints():
        return None
    finding = campaign.corpus.finding(divergence.fingerprint)
    counts = {**(finding.cases_by_campaign or {"": finding.hits})}
    counts[campaign.name] = max(times, counts.get(campaign.name, 0))
    paths = tuple(sorted({*finding.paths, divergence.path}))
    last = max(finding.last_seen, ran.started)
    counted = msgspec.structs.replace(
        finding, hits=sum(counts.values()), cases_by_campaign=counts, paths=paths, last_seen=last
    )
    campaign.corpus.put(counted)
    return counted

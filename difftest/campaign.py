"""A campaign: run cases, compare, and turn what diverges into findings.

Search and execution come in as callables, so all of this is tested on fakes in milliseconds. Cases are examined
concurrently, and recorded in the order of their indices, so that what a campaign finds does not depend on timing.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from difftest.case import Case
from difftest.comparator import Comparison
from difftest.corpus import Corpus, Ending, Observation
from difftest.divergence import Divergence, Finding
from difftest.evidence import new_finding
from difftest.examine import ORACLE, Campaign, Examined, Ran, examine
from difftest.layers import walk
from difftest.outcome import Failure, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One more case is recorded: the findings it hit, new ones apart."""

    examined: Examined
    new: tuple[Finding, ...] = ()
    known: tuple[Finding, ...] = ()


def run(campaign: Campaign, cases: Iterable[tuple[int, Case]]) -> Iterator[Progress]:
    """Examines `cases` a few at a time, drawn as they are needed, and records each; yields once a case, in order."""
    with ThreadPoolExecutor(campaign.workers) as pool:
        waiting: deque[Future[Examined]] = deque()
        for index, case in cases:
            waiting.append(pool.submit(examine, campaign, index, case))
            if len(waiting) > campaign.workers:
                yield record(campaign, waiting.popleft().result())
        while waiting:
            yield record(campaign, waiting.popleft().result())


def record(campaign: Campaign, examined: Examined) -> Progress:
    """Writes a case's runs to the corpus and its divergences to their findings."""
    new: list[Finding] = []
    known: list[Finding] = []
    for backend, comparison in examined.comparisons.items():
        if comparison.divergences:
            finding, is_new = _find(campaign, examined, comparison.divergences[0], examined.runs[backend])
            (new if is_new else known).append(finding)
    for ran in examined.runs.values():
        campaign.corpus.observe(observation(campaign, examined, ran))
    return Progress(examined=examined, new=tuple(new), known=tuple(known))


def observation(campaign: Campaign, examined: Examined, ran: Ran) -> Observation:
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
    )


def _ending(outcome: Outcome) -> Ending:
    if isinstance(outcome, Failure):
        return Ending(status=outcome.symptom, stage=outcome.stage, step=outcome.step, kind=outcome.kind, message=outcome.message)
    return Ending(status="finished")


def _find(campaign: Campaign, examined: Examined, divergence: Divergence, ran: Ran) -> tuple[Finding, bool]:
    """The finding of a divergence, counted once more or new."""
    with campaign.corpus.locked():
        if known := _again(campaign.corpus, divergence, ran):
            return known, False
    new = new_finding(campaign, examined, divergence, ran)
    with campaign.corpus.locked():
        if known := _again(campaign.corpus, divergence, ran):  # another campaign found it meanwhile
            return known, False
        campaign.corpus.save(new, examined.case)
    return new, True


def _again(corpus: Corpus, divergence: Divergence, ran: Ran) -> Finding | None:
    """The finding of a divergence that the corpus knows, counted once more; None when it is new."""
    if divergence.fingerprint not in corpus.fingerprints():
        return None
    finding = corpus.finding(divergence.fingerprint)
    paths = tuple(sorted({*finding.paths, divergence.path}))
    counted = msgspec.structs.replace(finding, hits=finding.hits + 1, paths=paths, last_seen=ran.started)
    corpus.save(counted, corpus.case(divergence.fingerprint))
    return counted

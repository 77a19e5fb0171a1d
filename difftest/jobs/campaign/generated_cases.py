"""A campaign of generated cases: its definition, its machine and backends, and the loop over its cases."""

import dataclasses
import heapq
import itertools
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

import click
import msgspec

from difftest.campaign.budget import GRACE_SECONDS, until
from difftest.campaign.campaign import BackendTraits, Campaign
from difftest.campaign.new_finding import KNOWN_IN_FULL
from difftest.campaign.postponed import gather_postponed, postponed
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber, Series
from difftest.cases.twins import twin
from difftest.findings.blind import blind_places
from difftest.findings.ledger import Ledger
from difftest.findings.quarantine import with_quarantine
from difftest.ground.clock import utc_today
from difftest.ground.errors import StoppedError
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.cluster import on_cluster
from difftest.jobs.campaign.control import CasesOfBackends, remember, run_controls
from difftest.jobs.campaign.progress import FirstComparison, Meter
from difftest.jobs.campaign.tally import NO_EVIDENCE, Tally
from difftest.records.corpus import Corpus
from difftest.records.definition import CampaignDefinition, versions
from difftest.records.resume import CampaignRecord

if TYPE_CHECKING:
    from workers.backends import Backend

SAMPLED = 3
"""How many recorded cases are compared with those of the seed."""


def define(request: CampaignRequest) -> CampaignDefinition:
    """What defines the requested campaign: an equal definition continues it."""
    from workers.backends import candidates
    from workers.cluster import environments

    backends = tuple(sorted(candidates(request.backends)))
    return CampaignDefinition(
        seed=request.seed,
        paths=request.chosen_paths(),
        model=f"{request.model.layer.source} {request.model.digest}" if request.model else msgspec.UNSET,
        backends=backends,
        max_world_size=request.max_world_size,
        twice_every=request.twice_every,
        versions=versions(),
        where=environments.chosen(backends),
    )


@contextmanager
def campaign_on_cluster(request: CampaignRequest, corpus: Corpus, ledger: Ledger) -> Iterator[Campaign]:
    """The requested campaign on a cluster, without the cases that `ledger` keeps from its backends."""
    from workers.backends import candidates

    others = chosen_references(request)
    backends = candidates(request.backends) | others
    with on_cluster(backends, workers=request.workers, address=request.address) as cluster:
        campaign = cluster.campaign(
            define(request).name,
            corpus,
            backends=with_quarantine(backends, ledger, utc_today()),
            twice_every=request.twice_every,
            references=others,
        )
        cluster.cut_at(request.end + GRACE_SECONDS)
        yield FirstComparison(campaign).watched()


def chosen_references(request: CampaignRequest) -> "dict[str, Backend]":
    """The references that run twins: those named, or all where no backend is; none for a user's own model."""
    from workers.backends import references

    if not request.references_every or request.model:
        return {}
    named = request.backends or tuple(references())
    return {name: reference for name, reference in references().items() if name in named}


def run_cases(
    campaign: Campaign,
    request: CampaignRequest,
    recorded: CampaignRecord,
    ledger: Ledger,
    last: float | None = None,
) -> Tally:
    """Runs the requested cases that are not `recorded`, and shows the progress on standard error.

    No case is begun after the time `last` (monotonic), by default the end of the request's budget. Evidence
    that an earlier command had no time for comes first. Where the command is stopped, the tally says so.
    """
    today, last = utc_today(), request.end if last is None else last
    meter = Meter(_left(request, recorded), last, request.end + GRACE_SECONDS, ledger)
    endless = dataclasses.replace(
        meter.watched(campaign),
        explanation=partial(ledger.entry, today=today),
        known_in_full=KNOWN_IN_FULL,
        blind=partial(blind_places, ledger, today=today),
    )
    campaign = until(endless, request.end)
    tally = recorded_tally(campaign.name, campaign.ordinary(), campaign.corpus, recorded, ledger)
    began = time.monotonic()
    if recorded.cases:
        click.echo(f"campaign {campaign.name}: continues after {tally.resumed} recorded cases", err=True)
    with meter, closing(generated_cases(request, recorded)) as cases:
        try:
            gather_postponed(campaign)
            compared = CasesOfBackends(dict)
            drawn = with_twins(campaign, cases, request.references_every)
            for progress in run(campaign, begun_before(drawn, last), recorded):
                tally.count(progress)
                meter.count(progress)
                remember(compared, progress.result)
            entries = partial(ledger.about, today=today)
            for progress in run_controls(endless, compared, recorded, tally.never_worked(), entries):
                tally.count(progress)
        except StoppedError as stop:
            tally.stopped = stop
    tally.unfinished[NO_EVIDENCE] = len(postponed(campaign.corpus, campaign.backends))
    tally.seconds = time.monotonic() - began
    return tally


def begun_before(cases: Iterator[tuple[int, Case]], last: float) -> Iterator[tuple[int, Case]]:
    """The cases that are drawn before the time `last` (monotonic)."""
    return itertools.takewhile(lambda _: time.monotonic() <= last, cases)


def recorded_tally(
    name: str,
    backends: Mapping[str, BackendTraits],
    corpus: Corpus,
    recorded: CampaignRecord,
    ledger: Ledger,
) -> Tally:
    """What the campaign called `name` came to before this command."""
    for backend, traits in backends.items():
        recorded.comparisons.expect(traits.SIDE, backend)
    tally, present = Tally(campaign=name, ledger=ledger), set(corpus.fingerprints())
    tally.comparisons = recorded.comparisons
    tally.resumed = sum(CaseNumber.of(index).series != Series.REFERENCE for index, _ in recorded.cases)
    tally.recurring = {
        fingerprint: corpus.finding(fingerprint)
        for fingerprint in recorded.sightings
        if fingerprint in present
    }
    return tally


def is_complete(request: CampaignRequest, recorded: CampaignRecord, corpus: Corpus | None = None) -> bool:
    """Whether every requested case is recorded, as it is drawn now, so that nothing is left to run.

    In `corpus`, no evidence may be left to gather either.
    """
    left = corpus is not None and postponed(corpus, define(request).backends)
    return not left and _left(request, recorded) == 0 and _are_of_seed(request, recorded)


def _left(request: CampaignRequest, recorded: CampaignRecord) -> int | None:
    """How many of the requested cases are not recorded; None if only the budget limits their number."""
    if request.most_cases is None:
        return None
    done = {index for index, _ in recorded.cases}
    numbers = itertools.chain(request.known(), request.numbers(request.most_cases))
    return sum(index not in done for index in numbers)


def generated_cases(
    request: CampaignRequest, recorded: CampaignRecord
) -> Generator[tuple[int, Case], None, None]:
    """The requested cases with their indices, until their number is reached.

    Each is drawn when it is needed, or a little before. Those that are `recorded` are not even drawn, unless
    they are no longer the cases of the seed.
    """
    from generators.ahead import cases_ahead

    done, drawing = set[int](), request
    if _are_of_seed(request, recorded):
        done = {index for index, _ in recorded.cases}
    indices = (index for index in drawing.numbers(request.most_cases) if index not in done)
    paths, most_ranks = request.paths or None, request.max_world_size
    first = ((index, drawing.case(index)) for index in drawing.known() if index not in done)
    drawn = (
        ((index, drawing.case(index)) for index in indices)
        if request.model
        else cases_ahead(request.seed, indices, paths=paths, max_world_size=most_ranks)
    )
    # A generator, which its caller closes: left open, it would end its processes too late, with an error.
    yield from itertools.chain(first, drawn)


def _are_of_seed(request: CampaignRequest, recorded: CampaignRecord) -> bool:
    """Whether a few of the recorded cases are drawn again as they were; not after the generators changed.

    The chosen ones come early in their blocks, and therefore need few others to be drawn.
    """
    from generators.explore import BLOCK

    sample = heapq.nsmallest(SAMPLED, recorded.cases, key=lambda one: (one[0] % BLOCK, one[0]))
    return all(request.case(index).id == name for index, name in sample)


def with_twins(
    campaign: Campaign, cases: Iterable[tuple[int, Case]], every: int
) -> Iterator[tuple[int, Case]]:
    """The cases, one in `every` of which its twin follows if a reference of the campaign can run it.

    Which these are depends on the case alone. `every` is 0 for none.
    """
    references = [campaign.backends[name] for name in sorted(campaign.references)]
    for index, case in cases:
        yield index, case
        if not every or crc32(case.id.encode()) % every:
            continue
        own = twin(case)
        if any(not reference.unsupported(own) for reference in references):
            yield CaseNumber(index, Series.REFERENCE).recorded, own

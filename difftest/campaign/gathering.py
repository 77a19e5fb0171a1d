"""Evidence for new findings, gathered in threads of its own while later cases run."""

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import msgspec

from difftest.campaign.campaign import Campaign
from difftest.campaign.case_run import CaseResult
from difftest.campaign.evidence import decided_elsewhere, known_if_decided
from difftest.campaign.memo import oracle_once
from difftest.campaign.postponed import gathered
from difftest.records.evidence import with_decided
from difftest.records.finding import Finding

MOST_IN_VAIN = 4
"""So many later cases of a fingerprint are asked what decides in them without an answer, and no others."""


class Gathering:
    """Starts what a new fingerprint needs, once, for as many fingerprints at a time as there are workers.

    A later case of it pays for runs only where one of its options may make it a fault that the ledger knows.
    `ended` is called whenever the evidence for a finding is complete, in any thread.
    """

    def __init__(self, campaign: Campaign, ended: Callable[[], None]) -> None:
        self._campaign, self._ended = campaign, ended
        self._threads = ThreadPoolExecutor(campaign.workers)
        self._made: dict[str, Future[Finding]] = {}
        self._in_vain = Counter[str]()

    def start(self, result: CaseResult) -> Mapping[str, Future[Finding]]:
        """The findings in the making, by fingerprint, of what this case is the first to show, or shows anew.

        Cases come in the order of their indices, so that the first case is the same however long each takes.
        """
        futures, campaign = {}, oracle_once(self._campaign, result)
        for divergence in result.first_divergences():
            name = divergence.fingerprint
            if name not in self._made and not campaign.corpus.holds(name):
                futures[name] = self._threads.submit(gathered, campaign, result, divergence)
            elif options := known_if_decided(campaign, result.case, divergence):
                decided = partial(decided_elsewhere, campaign, result.case, divergence, options)
                explained = partial(campaign.explanation, divergence, result.case)
                there = self._made.get(name)
                futures[name] = self._threads.submit(self._again, name, there, explained, decided)
            else:
                continue
            self._made[name] = futures[name]
            futures[name].add_done_callback(lambda _: self._ended())
        return futures

    def _again(
        self,
        name: str,
        earlier: Future[Finding] | None,
        explained: Callable[..., object],
        decided: Callable[[], tuple[str, ...]],
    ) -> Finding:
        """The finding that an earlier case made, or the corpus has, with what decides in a later one.

        The earlier case was submitted before, so that waiting for it ends.
        """
        there = earlier.result() if earlier else self._campaign.corpus.finding(name)
        if explained(evidence=there.evidence) or self._in_vain[name] == MOST_IN_VAIN:
            return there
        options = decided()
        self._in_vain[name] += not options
        return msgspec.structs.replace(there, evidence=with_decided(there.evidence, options))

    def close(self) -> None:
        """Waits for the runs that go on, and starts no others."""
        self._threads.shutdown(cancel_futures=True)

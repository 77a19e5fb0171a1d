"""Evidence for new findings, gathered in threads of its own while later cases run."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from difftest.campaign.campaign import Campaign
from difftest.campaign.case_run import CaseResult
from difftest.campaign.memo import oracle_once
from difftest.campaign.postponed import gathered
from difftest.records.finding import Finding


class Gathering:
    """Starts what a new fingerprint needs, once, for as many fingerprints at a time as there are workers.

    `ended` is called whenever the evidence for a finding is complete, in any thread.
    """

    def __init__(self, campaign: Campaign, ended: Callable[[], None]) -> None:
        self._campaign, self._ended = campaign, ended
        self._threads = ThreadPoolExecutor(campaign.workers)
        self._started: set[str] = set()

    def start(self, result: CaseResult) -> Mapping[str, Future[Finding]]:
        """The findings in the making, by fingerprint, of what this case is the first to show.

        Cases come in the order of their indices, so that the first case is the same however long each takes.
        """
        futures, campaign = {}, oracle_once(self._campaign, result)
        for divergence in result.first_divergences():
            name = divergence.fingerprint
            if name not in self._started and not self._campaign.corpus.holds(name):
                self._started.add(name)
                futures[name] = self._threads.submit(gathered, campaign, result, divergence)
                futures[name].add_done_callback(lambda _: self._ended())
        return futures

    def close(self) -> None:
        """Waits for the runs that go on, and starts no others."""
        self._threads.shutdown(cancel_futures=True)

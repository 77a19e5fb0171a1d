"""The loop of a campaign: run cases, compare, record.

Search and execution come in as callables, so that tests run all of this on fakes in milliseconds. Cases run
concurrently, programs in groups, and so does what their findings need. They are examined and recorded in the
order of their indices, so that what a campaign records does not depend on timing.
"""

import queue
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeAlias

from difftest.campaign.campaign import Campaign
from difftest.campaign.case_run import CaseResult, run_group
from difftest.campaign.gathering import Gathering
from difftest.campaign.groups import grouped
from difftest.campaign.recording import Complete, Progress, record
from difftest.campaign.turns import Turns
from difftest.cases.case import Case
from difftest.records.finding import Finding
from difftest.records.resume import CampaignRecord

UNRECORDED_PER_WORKER = 8
"""How many groups of cases may be between drawn and recorded for each worker.

A group waits until the evidence for every finding of an earlier case is there, which takes several times as
long as a case does.
"""

WORKERS_PER_SPARE_GROUP = 4
"""For this many workers, one group more is in progress, to run while others are compared."""

MOST_WORKERS = 1024
"""The largest number of workers that a campaign uses as a cluster grows."""

MOST_AT_ONCE = 100
"""How many cases are recorded in one write at most."""


def run(
    campaign: Campaign, cases: Iterable[tuple[int, Case]], recorded: CampaignRecord | None = None
) -> Iterator[Progress]:
    """Runs `cases`, pairs of index and case, which are drawn as they are needed.

    As many runs go on at a time as there are workers. Yields each case, recorded, in order.

    Cases that are `recorded` already are skipped. Of those for which there is no time, as where the command
    is stopped, what was compared is recorded; they run again. A `StoppedError` is raised after that.
    """
    before = recorded or CampaignRecord()
    for name, backend in campaign.ordinary().items():
        before.comparisons.expect(backend.SIDE, name)
    loop = _Loop(campaign, ((index, case) for index, case in cases if (index, case.id) not in before.cases))
    try:
        while results := loop.next_complete():
            yield from record(campaign, results, before)
    finally:
        loop.close()


_Examined: TypeAlias = tuple[CaseResult, Mapping[str, Future[Finding]]]
"""A case that ran, and the findings in the making of which it is the first case."""


class _Loop:
    """The groups of cases between drawn and recorded, in the order of the cases' indices.

    Only the thread that calls `next_complete` changes them. The others put a number into `_ended`: 1 for a
    group that ran, 0 for a finding whose evidence they gathered.
    """

    def __init__(self, campaign: Campaign, cases: Iterator[tuple[int, Case]]) -> None:
        self._turns = turns = Turns(campaign.execute, campaign.workers, campaign.execute_group)
        self._workers = campaign.workers
        self._groups = grouped(cases) if campaign.execute_group else ([numbered] for numbered in cases)
        self._campaign = replace(
            campaign, execute=turns.execute, execute_group=campaign.execute_group and turns.execute_group
        )
        self._ended = queue.SimpleQueue[int]()
        self._threads = ThreadPoolExecutor(
            _most_running(MOST_WORKERS if campaign.capacity else self._workers)
        )
        gathers = replace(campaign, execute=turns.execute_first)
        self._gathering = Gathering(gathers, lambda: self._ended.put(0))
        self._started = deque[Future[list[CaseResult]]]()
        self._examined = deque[deque[_Examined]]()
        self._running = 0

    def next_complete(self) -> list[Complete]:
        """The next cases to record; empty at the end."""
        while True:
            while not self._ended.empty():
                self._running -= self._ended.get()
            self._examine()
            if complete := self._take_complete():
                return complete
            if self._draw():
                continue
            if not (self._started or self._examined):
                if self._turns.stopped:
                    raise self._turns.stopped
                return []
            self._running -= self._ended.get()

    def close(self) -> None:
        """Waits for the runs that go on, and starts no others."""
        self._threads.shutdown(cancel_futures=True)
        self._gathering.close()

    def _draw(self) -> bool:
        """Starts the next group; False where there is none, or no place for it."""
        # Uses the workers that joined since the last case was drawn
        now = min(MOST_WORKERS, self._campaign.capacity() if self._campaign.capacity else 0)
        if now > self._workers:
            self._turns.add(now - self._workers)
            self._workers = now
        unrecorded = len(self._started) + len(self._examined)
        most = UNRECORDED_PER_WORKER * self._workers
        ends = bool(self._started) and self._started[0].done()
        if self._turns.stopped or ends or self._running >= _most_running(self._workers) or unrecorded >= most:
            return False
        for group in self._groups:
            self._started.append(self._threads.submit(run_group, self._campaign, group))
            self._started[-1].add_done_callback(lambda _: self._ended.put(1))
            self._running += 1
            return True
        return False

    def _examine(self) -> None:
        """Starts gathering evidence for the findings that cases are the first to show."""
        while self._started and self._started[0].done():
            if self._examined and self._started[0].exception():
                return  # what ends the campaign does so after the cases before it are recorded
            results = self._started.popleft().result()
            self._examined.append(
                deque((replace(result, truths={}), self._gathering.start(result)) for result in results)
            )

    def _take_complete(self) -> list[Complete]:
        """The first cases of which nothing is missing, which leave the loop."""
        complete = list[Complete]()
        while self._examined and len(complete) < MOST_AT_ONCE:
            result, evidence = self._examined[0][0]
            if not all(finding.done() for finding in evidence.values()):
                return complete
            if complete and any(finding.exception() for finding in evidence.values()):
                return complete
            complete.append((result, {name: finding.result() for name, finding in evidence.items()}))
            self._examined[0].popleft()
            if not self._examined[0]:
                self._examined.popleft()
        return complete


def _most_running(workers: int) -> int:
    """The largest number of groups in progress at a time; each has a thread, which starts with the group."""
    return workers + workers // WORKERS_PER_SPARE_GROUP

"""The loop of a campaign: run cases, compare, record.

Search and execution come in as callables, so that tests run all of this on fakes in milliseconds. Cases run
concurrently. They are recorded in the order of their indices, so that a campaign's findings do not depend on
timing.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from difftest.campaign.campaign import Campaign
from difftest.campaign.case_run import CaseResult, run_case
from difftest.campaign.recording import Progress, record
from difftest.cases.case import Case
from difftest.records.resume import CampaignRecord


def run(
    campaign: Campaign, cases: Iterable[tuple[int, Case]], recorded: CampaignRecord | None = None
) -> Iterator[Progress]:
    """Runs `cases`, pairs of index and case, a few at a time, drawn as they are needed.

    Yields each, recorded, in order.

    Cases that are `recorded` already are skipped.
    """
    before = recorded or CampaignRecord()
    with ThreadPoolExecutor(campaign.workers) as pool:
        waiting: deque[Future[CaseResult]] = deque()
        for index, case in cases:
            if (index, case.id) in before.cases:
                continue
            waiting.append(pool.submit(run_case, campaign, index, case))
            if len(waiting) > campaign.workers:
                yield record(campaign, waiting.popleft().result(), before)
        while waiting:
            yield record(campaign, waiting.popleft().result(), before)

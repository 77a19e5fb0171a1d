"""The twins of a campaign's cases, which references of another make run beside the oracle."""

from collections.abc import Iterable, Iterator
from zlib import crc32

from difftest.campaign.campaign import Campaign
from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber, Series
from difftest.cases.twins import twin


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

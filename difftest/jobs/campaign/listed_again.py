"""What the ledger says today of the findings of a campaign that ended before."""

from datetime import date
from typing import NamedTuple

from difftest.findings.ledger import Ledger
from difftest.jobs.campaign.tally import is_uncovered
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding


class Listing(NamedTuple):
    """The fingerprints of findings of which the ledger says something else than is recorded.

    `listed` have another issue or script, `delisted` had one and have none any more.
    """

    listed: tuple[str, ...] = ()
    delisted: tuple[str, ...] = ()


def list_again(corpus: Corpus, ledger: Ledger, today: date) -> Listing:
    """Records with each finding what `ledger` says of it `today`.

    One that has no entry any more is new again, as at the end of a campaign. `UsageError` where a case cannot
    be read.
    """
    listed, delisted = list[str](), list[str]()
    for finding in tuple(corpus.findings()):
        upstream = _upstream(corpus, finding, ledger, today)
        if upstream == finding.upstream:
            continue
        again = {} if upstream else {"new_in": _last(finding), "announced": ""}
        corpus.amend(finding.fingerprint, upstream=upstream, **again)
        (listed if upstream else delisted).append(finding.fingerprint)
    return Listing(tuple(listed), tuple(delisted))


def _upstream(corpus: Corpus, finding: Finding, ledger: Ledger, today: date) -> str:
    """The issue or script of the finding's entry; empty without one, and where it also showed otherwise."""
    entry = ledger.entry_of(finding, corpus.case(finding.fingerprint), today)
    if entry is None or (finding.new_in is not None and is_uncovered(finding, ledger, today)):
        return ""
    return entry.upstream


def _last(finding: Finding) -> tuple[str, int] | None:
    """A campaign that showed the finding, which is to announce it again; None where none is recorded."""
    names = sorted(finding.cases_by_campaign)
    return (names[-1], 0) if names else None

"""What today's ledger knows of the findings of a corpus."""

from collections.abc import Iterator

from difftest.cases.case import Case
from difftest.findings.ledger import Entry, read_ledger
from difftest.ground.clock import utc_today
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding


def explained(corpus: Corpus) -> Iterator[tuple[Finding, Case, Entry]]:
    """Each finding that an entry is about, with its case, which may be larger than the reduced one."""
    ledger = read_ledger()
    for finding in corpus.findings():
        case = corpus.case(finding.fingerprint)
        if entry := ledger.entry_of(finding, case, utc_today()):
            yield finding, case, entry

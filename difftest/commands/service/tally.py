"""What a campaign came to: counts, findings, trouble, and which of the findings the ledger knows."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from difftest.campaign.recording import Progress
from difftest.cases.case import Case
from difftest.clock import utc_today
from difftest.findings.ledger import Entry, Ledger
from difftest.records.comparisons import Comparisons
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding


@dataclass(slots=True)
class Tally:
    """The counts of one command. It holds no tensors: a run's are freed as soon as they are recorded.

    `resumed` counts the cases that an earlier command had recorded; `cases` and `runs` are this command's.
    `campaign` is the campaign's name. `comparisons` are all of its comparisons, also those that were recorded
    earlier. `new` and `recurring` are the findings by fingerprint; the latter were in the corpus before.
    `sightings` are by fingerprint the details of the divergences that showed it, with their cases: an unknown
    fault may have the fingerprint of a known one. `absent` says what was compared before and is no longer.
    `seconds` is wall time.
    """

    campaign: str = ""
    comparisons: Comparisons = field(default_factory=Comparisons)
    cases: int = 0
    runs: int = 0
    resumed: int = 0
    new: dict[str, Finding] = field(default_factory=dict)
    recurring: dict[str, Finding] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    seconds: float = 0.0
    sightings: dict[str, list[tuple[str, Case]]] = field(default_factory=dict)

    @property
    def findings(self) -> dict[str, Finding]:
        """All findings by fingerprint."""
        return {**self.new, **self.recurring}

    def count(self, progress: Progress) -> None:
        """Adds one case."""
        self.cases += 1
        self.runs += len(progress.result.runs)
        self.new |= {finding.fingerprint: finding for finding in progress.new}
        self.recurring |= {
            finding.fingerprint: finding
            for finding in progress.recurring
            if finding.fingerprint not in self.new
        }
        if progress.result.trouble:
            self.trouble.append(progress.result.trouble)
        comparisons = progress.result.comparisons.values()
        for first in (comparison.divergences[0] for comparison in comparisons if comparison.divergences):
            self.sightings.setdefault(first.fingerprint, []).append((first.detail, progress.result.case))

    def count_as_new(self, findings: Iterable[Finding]) -> None:
        """Counts findings as new, whichever command made them."""
        self.new |= {finding.fingerprint: finding for finding in findings}
        self.recurring = {name: finding for name, finding in self.recurring.items() if name not in self.new}


def known_upstream(corpus: Corpus, ledger: Ledger, tally: Tally) -> dict[str, Entry]:
    """The ledger's entries by fingerprint, for the findings that it knows.

    It knows a finding when it has an entry for the finding's own case and for each divergence that this
    campaign showed of it.
    """
    today, entries = utc_today(), dict[str, Entry]()
    for name, finding in tally.findings.items():
        own = ledger.entry(name, finding.divergence.detail, corpus.case(name), today)
        others = [ledger.entry(name, detail, case, today) for detail, case in tally.sightings.get(name, ())]
        if own and all(others):
            entries[name] = own
    return entries

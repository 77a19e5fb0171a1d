"""What a campaign came to: counts, findings, trouble, and which of the findings the ledger knows."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date

import msgspec

from difftest.campaign.recording import Progress
from difftest.cases.case import Case
from difftest.cases.twins import is_twin
from difftest.findings.ledger import Entry, Ledger
from difftest.ground.clock import utc_today
from difftest.ground.counted import counted
from difftest.ground.errors import StoppedError, UsageError
from difftest.records.comparisons import Comparisons
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding, Uncovered

IN_PART = "cases compared in part"
NO_EVIDENCE = "findings without all evidence"
NOT_TRIAGED = "findings not triaged"
NOT_DRAFTED = "findings not taken to a draft"


@dataclass(slots=True)
class Tally:
    """The counts of one command. It holds no tensors: a run's are freed as soon as they are recorded.

    Twins of cases (`difftest.cases.twins`) count as runs alone.
    `resumed` counts the cases that an earlier command had recorded; `cases` and `runs` are this command's,
    and `programs` are those of the cases that are programs of operators. A run is a row of the table: a case
    on the oracle or on a backend that can run it, whose repetitions and evidence do not count again.
    `campaign` is the campaign's name. `comparisons` are all of its comparisons, also those that were recorded
    earlier. `new` and `recurring` are the findings by fingerprint; the latter were in the corpus before.
    `uncovered` is by fingerprint the first divergence that showed it without an entry of `ledger`: an unknown
    fault may have the fingerprint of a known one. `absent` says what was compared before and is no longer.
    `unfinished` counts what there was no time for, in words: cases of which some runs were compared, findings
    without all evidence, and so on; the same command continues with it. `seconds` is wall time. `stopped`
    says why the command ended before its work was complete.
    """

    campaign: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    comparisons: Comparisons = field(default_factory=Comparisons)
    cases: int = 0
    programs: int = 0
    runs: int = 0
    resumed: int = 0
    new: dict[str, Finding] = field(default_factory=dict)
    recurring: dict[str, Finding] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    unfinished: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    uncovered: dict[str, Uncovered] = field(default_factory=dict)
    stopped: StoppedError | None = None

    @property
    def unfinished_in_words(self) -> str:
        """What there was no time for, such as `3 cases compared in part`; empty for nothing."""
        parts = ((number, *what.partition(" ")) for what, number in self.unfinished.items() if number)
        return ", ".join(
            f"{counted(number, noun.removesuffix('s'))} {rest}" for number, noun, _, rest in parts
        )

    @property
    def findings(self) -> dict[str, Finding]:
        """All findings by fingerprint."""
        return {**self.new, **self.recurring}

    @property
    def cases_in_words(self) -> str:
        """The number of cases, such as `40 cases and 40 programs`."""
        return in_words(self.cases - self.programs, self.programs)

    def never_worked(self) -> dict[str, str]:
        """The issues of faults that end every run of their backend, by the fingerprints of what it showed."""
        shown = {name: finding.divergence for name, finding in self.findings.items()}
        return self.ledger.never_worked(shown, utc_today())

    def count(self, progress: Progress) -> None:
        """Adds one case."""
        if progress.result.postponed:
            self.unfinished[IN_PART] += 1
        elif not is_twin(progress.result.case):
            self.cases += 1
            self.programs += progress.result.case.model.is_program
        self.runs += progress.result.counted_runs
        self.new |= {finding.fingerprint: finding for finding in progress.new}
        self.recurring |= {
            finding.fingerprint: finding
            for finding in progress.recurring
            if finding.fingerprint not in self.new
        }
        if progress.result.trouble:
            self.trouble.append(progress.result.trouble)
        case, today = progress.result.case, utc_today()
        evidence = {one.fingerprint: one.evidence for one in (*progress.new, *progress.recurring)}
        for first in progress.result.first_divergences():
            name = first.fingerprint
            if name in self.uncovered or self.ledger.entry(first, case, today, evidence.get(name, {})):
                continue
            shown = msgspec.structs.replace(first, log="")
            self.uncovered[name] = Uncovered(divergence=shown, case=case.to_json().decode())

    def count_as_new(self, findings: Iterable[Finding]) -> None:
        """Counts findings as new, whichever command made them."""
        self.new |= {finding.fingerprint: finding for finding in findings}
        self.recurring = {name: finding for name, finding in self.recurring.items() if name not in self.new}


def in_words(cases: int, programs: int) -> str:
    """Numbers of cases and programs, such as `40 cases and 1 program`."""
    ordinary, of_operators = counted(cases, "case"), counted(programs, "program")
    if not programs:
        return ordinary
    return f"{ordinary} and {of_operators}" if cases else of_operators


def known_upstream(corpus: Corpus, tally: Tally) -> dict[str, Entry]:
    """The ledger's entries by fingerprint, for the findings that it knows.

    It knows a finding when it has an entry for the finding's own case and for each divergence that this
    campaign showed of it. One without is kept with the finding, for when the command runs again and shows
    nothing.
    """
    today, entries = utc_today(), dict[str, Entry]()
    for name, finding in tally.findings.items():
        own = tally.ledger.entry_of(finding, corpus.case(name), today)
        if own and name in tally.uncovered:
            corpus.amend(name, uncovered=tally.uncovered[name])
        elif own and not _still_uncovered(finding, tally, today):
            entries[name] = own
    return entries


def _still_uncovered(finding: Finding, tally: Tally, today: date) -> bool:
    """Whether an earlier command of this campaign showed it in a way that the ledger still does not know."""
    if finding.new_in is None or finding.new_in[0] != tally.campaign:
        return False
    return is_uncovered(finding, tally.ledger, today)


def is_uncovered(finding: Finding, ledger: Ledger, today: date) -> bool:
    """Whether it showed in a way that was kept because the ledger did not know it, and does not know now."""
    earlier = finding.uncovered
    if earlier is None:
        return False
    try:
        case = Case.from_json(earlier.case)
    except UsageError:
        return True
    return ledger.entry(earlier.divergence, case, today, finding.evidence) is None

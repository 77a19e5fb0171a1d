"""A finding on its way to a draft: what the ledger, the releases and its folder say of it, asked once."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from difftest.cases.case import Case
from difftest.findings.ledger import Ledger
from difftest.findings.titles import reason_of
from difftest.ground.clock import utc_today
from difftest.jobs.ask.targets import FindingTarget
from difftest.jobs.filing.known_script import KnownScript, known_script
from difftest.records.finding import Finding

if TYPE_CHECKING:
    from reports.draft.releases import Releases


@dataclass(frozen=True, slots=True, kw_only=True)
class Filing(FindingTarget):
    """A finding, the simplest case that shows it, its folder, and what decides how it is drafted.

    `reason` is that of the ledger's entry about it, empty without one, and `script` the one that shows the
    entry's fault, None without one. `releases` are those in which it was tried. `refusal` says why there must
    be no draft; None where there may be one. `tracker` is that of the evidence.
    """

    reason: str
    script: KnownScript | None
    releases: "Releases"
    refusal: str | None
    tracker: str

    @classmethod
    def of(cls, subject: FindingTarget, ledger: Ledger) -> Self:
        """The filing of a finding as its folder has it."""
        from reports.draft.refusal import refusal
        from reports.draft.releases import releases_of
        from reports.draft.tracker import tracker

        finding, releases = subject.finding, releases_of(subject.finding)
        return cls(
            finding=finding,
            case=subject.case,
            folder=subject.folder,
            reason=reason_of(finding, subject.case, ledger),
            script=known_script(finding.upstream),
            releases=releases,
            refusal=refusal(finding, releases),
            tracker=tracker(finding),
        )

    @classmethod
    def as_listed_today(cls, subject: FindingTarget, ledger: Ledger) -> Self:
        """The same with what the ledger says today, which may be more than when the finding was measured."""
        finding, corpus = subject.finding, subject.corpus
        if not finding.upstream:
            entry = ledger.entry_of(finding, corpus.case(finding.fingerprint), utc_today())
            finding = corpus.amend(finding.fingerprint, upstream=entry.upstream) if entry else finding
        return cls.of(replace(subject, finding=finding), ledger)

    def after(self, finding: Finding, case: Case | None = None) -> Self:
        """The filing after a stage that wrote to the finding, or found a smaller case."""
        from reports.draft.tracker import tracker

        return replace(self, finding=finding, case=case or self.case, tracker=tracker(finding))

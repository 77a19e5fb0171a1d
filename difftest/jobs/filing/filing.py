"""A finding on its way to a draft: what the ledger, the releases and its folder say of it, read once."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from difftest.cases.case import Case
from difftest.findings.faults import KnownScript, known_script
from difftest.findings.ledger import Ledger
from difftest.findings.titles import reason_of
from difftest.ground.clock import utc_today
from difftest.jobs.ask.targets import FindingTarget, read_finding
from difftest.records import own_scripts, read_limits
from difftest.records.corpus import OUTPUT, SCRIPT
from difftest.records.finding import Finding

if TYPE_CHECKING:
    from reports.draft.reportable import Releases


@dataclass(frozen=True, slots=True, kw_only=True)
class Filing(FindingTarget):
    """A finding, the simplest case that shows it, its folder, and what decides how it is drafted.

    `reason` is that of the ledger's entry about it, empty without one, and `listed` the script that shows the
    entry's fault, None without one. `releases` are those in which it was tried. `refusal` says why there must
    be no draft; None where there may be one. `tracker` is that of the evidence. `script` is the one in its
    folder, and `output` what that printed; empty without one.
    """

    reason: str
    listed: KnownScript | None
    releases: "Releases"
    refusal: str | None
    tracker: str
    script: str
    output: str

    @classmethod
    def read(cls, folder: Path, ledger: Ledger, *, as_listed_today: bool = False) -> Self:
        """The filing of the finding in `folder`.

        `as_listed_today` asks the ledger again about a finding that was unknown when it was measured, and
        keeps what it says.
        """
        from reports.draft.reportable import refusal, releases_of, tracker

        subject = read_finding(folder)
        finding = subject.finding
        if as_listed_today and not finding.upstream:
            entry = ledger.entry_of(finding, subject.original, utc_today())
            finding = subject.corpus.amend(finding.fingerprint, upstream=entry.upstream) if entry else finding
        reason = reason_of(finding, subject.case, ledger)
        releases = releases_of(finding)
        return cls(
            finding=finding,
            case=subject.case,
            original=subject.original,
            folder=subject.folder,
            reason=reason,
            listed=known_script(finding.upstream),
            releases=releases,
            refusal=refusal(finding, releases),
            tracker=tracker(finding),
            script=read_text(subject.folder / SCRIPT),
            output=read_text(subject.folder / OUTPUT),
        )

    @property
    def ran_here(self) -> bool:
        """Whether difftest wrote and ran the script for this user, and it printed the output."""
        return own_scripts.has_printed(self.finding.fingerprint, self.script, self.output)

    def after(self, finding: Finding, case: Case | None = None) -> Self:
        """The filing after a stage that wrote to the finding, or found a smaller case."""
        from reports.draft.reportable import tracker

        return replace(self, finding=finding, case=case or self.case, tracker=tracker(finding))


def read_text(file: Path) -> str:
    """What a file of a finding's folder holds; empty where there is none."""
    if not file.is_file():
        return ""
    return read_limits.read(file, read_limits.MOST_SCRIPT_BYTES).decode(errors="replace")

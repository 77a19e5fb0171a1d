"""Writing a finding's draft: whether it may be drafted, what the draft holds, and what to do beside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from difftest.findings.ledger import read_ledger
from difftest.findings.titles import reason_of
from difftest.ground.errors import UsageError
from difftest.jobs.ask.targets import FindingTarget
from difftest.jobs.filing import quotations
from difftest.jobs.filing.execution import python_of
from difftest.jobs.filing.known_script import known_script
from difftest.jobs.filing.recompilation import COMPILE
from difftest.jobs.screen.output import write_text
from difftest.judge.fingerprint import readable
from difftest.records import own_scripts, read_limits, reduced_run
from difftest.records.corpus import DRAFT, OUTPUT, SCRIPT
from difftest.records.finding import Finding

UNKNOWN = (
    "was not run here, or it or its output was changed since; the draft says so. "
    "`difftest reproducer` writes a script and runs it"
)
UNTRIED = (
    "the newest release, which is what maintainers ask for first; "
    "`difftest bisect FINDING --package {package} --versions {tried},{newest}` tries it"
)
NO_SCRIPT = (
    "no script shows it yet, and maintainers ask for one; `difftest file {folder}` looks for the smallest "
    "case, makes a script of it and drafts (`difftest reproducer` makes the script alone)"
)
OWN_MODEL = "its script holds the source of your model; do not post the draft where others may not read that"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A draft that was written to `file`, or the `reason` why not; `advice` are lines for the user."""

    fingerprint: str
    tracker: str
    file: Path
    reason: str | None
    advice: tuple[str, ...] = ()

    def entries(self) -> dict[str, Any]:
        """The JSON object of the command."""
        written = None if self.reason else str(self.file)
        name = self.fingerprint
        return {"fingerprint": name, "tracker": self.tracker, "file": written, "reason": self.reason}

    def line(self) -> str:
        """What came of it."""
        if self.reason:
            return f"{readable(self.fingerprint)}: not drafted: {self.reason}"
        written = f"drafted for {self.tracker} in {self.file}"
        return f"{readable(self.fingerprint)}: {written}; read it, and post it yourself if you agree"


def write_issue(subject: FindingTarget, tracker: str | None, most_a_day: int, out: Path | None) -> Issue:
    """Writes the draft for `tracker`, by default that of the evidence; wrong usage where there is no such."""
    from reports.draft.draft import trackers
    from reports.draft.refusal import refusal
    from reports.draft.tracker import tracker as tracker_of

    if tracker is not None:
        _require(tracker, trackers())
    finding, folder = subject.finding, subject.folder
    chosen, file = tracker or tracker_of(finding), out or folder / DRAFT
    script, output = read_text(folder / SCRIPT), read_text(folder / OUTPUT)
    reason = (
        refusal(finding)
        or quotations.limit_reached(folder, most_a_day)
        or (None if script else NO_SCRIPT.format(folder=folder))
    )
    advice: tuple[str, ...] = ()
    if reason is None:
        ran_here = own_scripts.has_printed(finding.fingerprint, script, output)
        write_text(file, _text(subject, chosen, script, output, ran_here=ran_here))
        advice = _advice(subject, ran_here=ran_here)
    return Issue(fingerprint=finding.fingerprint, tracker=chosen, file=file, reason=reason, advice=advice)


def _advice(subject: FindingTarget, *, ran_here: bool) -> tuple[str, ...]:
    from reports.draft.releases import untried

    newest = untried(subject.finding)
    lines = (
        f"not tried on {newest}, {_how_to_try(subject.finding, newest)}" if newest else "",
        "" if ran_here else f"{str(subject.folder / SCRIPT)!r} {UNKNOWN}",
        OWN_MODEL if subject.case.model.own else "",
    )
    return tuple(line for line in lines if line)


def _how_to_try(finding: Finding, newest: str) -> str:
    from reports.draft.releases import tried

    package, release = newest.split()
    return UNTRIED.format(package=package, tried=",".join(tried(finding)), newest=release)


def _collected(backend: str) -> str:
    """What torch says of the environment of a backend, or why it says nothing."""
    try:
        return quotations.collect_env(python_of(backend))
    except UsageError as error:
        return str(error)


def _text(subject: FindingTarget, tracker: str, script: str, output: str, *, ran_here: bool) -> str:
    from reports.draft.draft import Draft, render
    from workers.backends import titles

    candidate = known_script(subject.finding)
    listed = candidate if candidate and candidate.text == script else None
    draft = Draft(
        finding=subject.finding,
        case=subject.case,
        of_original=quotations.measurement_of(subject.corpus, subject.finding),
        run=None if listed else reduced_run.read(subject.folder, subject.case.id),
        reproducer=script,
        listed=listed is not None,
        output=output,
        ran_here=ran_here,
        versions=quotations.versions(subject.finding, subject.case),
        collected=_collected(subject.finding.divergence.backend),
        artifacts=(files := quotations.artifacts(subject.folder)),
        graph=quotations.graph(subject.folder, files),
        compile=COMPILE.strip(),
        called=titles(),
        reason=reason_of(subject.finding, subject.case, read_ledger()),
    )
    return render(draft, tracker)


def _require(tracker: str, allowed: tuple[str, ...]) -> None:
    if tracker not in allowed:
        msg = f"{tracker!r} is not a tracker; allowed: {', '.join(allowed)}"
        raise click.BadParameter(msg, param_hint="--tracker")


def read_text(file: Path) -> str:
    """What a file of a finding's folder holds; empty where there is none."""
    if not file.is_file():
        return ""
    return read_limits.read(file, read_limits.MOST_SCRIPT_BYTES).decode(errors="replace")

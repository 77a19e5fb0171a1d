"""Writing a finding's draft: whether it may be drafted, what the draft holds, and what to do beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from difftest.ground.errors import UsageError
from difftest.jobs.filing import quotations
from difftest.jobs.filing.execution import python_of
from difftest.jobs.filing.filing import Filing
from difftest.jobs.filing.pass_files import AFTER, BEFORE
from difftest.jobs.filing.recompilation import GRAPH, PROGRAM, compile_program
from difftest.jobs.screen.output import write_text
from difftest.judge.fingerprint import readable
from difftest.records import own_scripts, read_limits, reduced_run
from difftest.records.corpus import ARTIFACTS, DRAFT, OUTPUT, SCRIPT

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


def write_issue(filing: Filing, tracker: str | None, most_a_day: int, out: Path | None) -> Issue:
    """Writes the draft for `tracker`, by default that of the evidence; wrong usage where there is no such."""
    from reports.draft.rendering import trackers

    if tracker is not None:
        allowed = trackers()
        if tracker not in allowed:
            msg = f"{tracker!r} is not a tracker; allowed: {', '.join(allowed)}"
            raise click.BadParameter(msg, param_hint="--tracker")
    name, folder = filing.finding.fingerprint, filing.folder
    chosen, file = tracker or filing.tracker, out or folder / DRAFT
    script, output = read_text(folder / SCRIPT), read_text(folder / OUTPUT)
    reason = (
        filing.refusal
        or quotations.limit_reached(folder, most_a_day)
        or (None if script else NO_SCRIPT.format(folder=folder))
    )
    advice: tuple[str, ...] = ()
    if reason is None:
        ran_here = own_scripts.has_printed(name, script, output)
        write_text(file, _text(filing, chosen, script, output, ran_here=ran_here))
        advice = tuple(_advice(filing, ran_here=ran_here))
    return Issue(fingerprint=name, tracker=chosen, file=file, reason=reason, advice=advice)


def _advice(filing: Filing, *, ran_here: bool) -> Iterator[str]:
    if newest := filing.releases.untried:
        package, tried = filing.releases.package, ",".join(filing.releases.tried)
        how = UNTRIED.format(package=package, tried=tried, newest=newest)
        yield f"not tried on {package} {newest}, {how}"
    if not ran_here:
        yield f"{str(filing.folder / SCRIPT)!r} {UNKNOWN}"
    if filing.case.model.own:
        yield OWN_MODEL


def _collected(backend: str) -> str:
    """What torch says of the environment of a backend, or why it says nothing."""
    try:
        return quotations.collect_env(python_of(backend))
    except UsageError as error:
        return str(error)


def _text(filing: Filing, tracker: str, script: str, output: str, *, ran_here: bool) -> str:
    from reports.draft.draft import Draft, devices
    from reports.draft.rendering import render
    from workers.backends import titles

    listed = filing.script is not None and filing.script.text == script
    draft = Draft(
        finding=filing.finding,
        case=filing.case,
        releases=filing.releases,
        of_original=quotations.measurement_of(filing.corpus, filing.finding),
        run=None if listed else reduced_run.read(filing.folder, filing.case.id),
        reproducer=script,
        listed=listed,
        output=output,
        ran_here=ran_here,
        versions=quotations.versions(filing.finding, filing.case),
        collected=_collected(filing.finding.divergence.backend),
        artifacts=(files := quotations.artifacts(filing.folder)),
        graph=quotations.graph(filing.folder, files),
        graph_name=GRAPH,
        compile=compile_program(devices(script) or filing.case.world_size),
        compile_name=PROGRAM,
        before_pass=read_text(filing.folder / ARTIFACTS / BEFORE),
        after_pass=read_text(filing.folder / ARTIFACTS / AFTER),
        called=titles(),
        reason=filing.reason,
        listed_title=filing.script.title if filing.script else "",
    )
    return render(draft, tracker)


def read_text(file: Path) -> str:
    """What a file of a finding's folder holds; empty where there is none."""
    if not file.is_file():
        return ""
    return read_limits.read(file, read_limits.MOST_SCRIPT_BYTES).decode(errors="replace")

"""Writing a finding's draft: whether it may be drafted, what the draft quotes, and what to do beside it."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from difftest.cases.case import Case
from difftest.ground import installed
from difftest.ground.clock import utc_today
from difftest.ground.errors import UsageError
from difftest.jobs.filing.execution import python_of
from difftest.jobs.filing.filing import Filing, read_text
from difftest.jobs.screen.output import write_text
from difftest.judge.fingerprint import readable
from difftest.judge.measured import Measurement
from difftest.records import reduced_run
from difftest.records.corpus import AFTER_PASS, ARTIFACTS, BEFORE_PASS, DRAFT, SCRIPT, Corpus
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


HERE = "where this was drafted"
COLLECT_SECONDS = 120.0
MOST_GRAPH = 10_000
"""The most characters of a graph that is quoted; a longer one is attached alone."""


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
    """Writes the draft for `tracker`, by default that of the evidence, to `out` or the finding's folder."""
    chosen, file = tracker or filing.tracker, out or filing.folder / DRAFT
    ran_here = filing.ran_here
    reason = (
        filing.refusal
        or limit_reached(filing.folder, most_a_day)
        or (None if filing.script else NO_SCRIPT.format(folder=filing.folder))
    )
    if reason is None:
        write_text(file, _text(filing, chosen, ran_here=ran_here))
    return Issue(
        fingerprint=filing.finding.fingerprint,
        tracker=chosen,
        file=file,
        reason=reason,
        advice=() if reason else tuple(_advice(filing, ran_here=ran_here)),
    )


def _advice(filing: Filing, *, ran_here: bool) -> Iterator[str]:
    if newest := filing.releases.untried:
        package, tried = filing.releases.package, ",".join(filing.releases.tried)
        how = UNTRIED.format(package=package, tried=tried, newest=newest)
        yield f"not tried on {package} {newest}, {how}"
    if not ran_here:
        yield f"{str(filing.folder / SCRIPT)!r} {UNKNOWN}"
    if filing.case.model.own:
        yield OWN_MODEL


def _text(filing: Filing, tracker: str, *, ran_here: bool) -> str:
    """The draft in the form of `tracker`, with what it quotes besides the finding."""
    from reports.draft.draft import Draft
    from reports.draft.rendering import render
    from workers.backends import titles

    finding, case, folder, script = filing.finding, filing.case, filing.folder, filing.script
    listed = filing.listed is not None and filing.listed.text == script
    files = artifacts(folder)
    try:
        collected = collect_env(python_of(finding.divergence.backend))
    except UsageError as error:
        collected = str(error)
    draft = Draft(
        finding=finding,
        case=case,
        releases=filing.releases,
        of_original=measurement_of(filing.corpus, finding),
        run=None if listed else reduced_run.read(folder, case.id),
        reproducer=script,
        listed=listed,
        output=filing.output,
        ran_here=ran_here,
        versions=versions(finding, case),
        collected=collected,
        artifacts=files,
        graph=graph(folder, files),
        before_pass=read_text(folder / ARTIFACTS / BEFORE_PASS),
        after_pass=read_text(folder / ARTIFACTS / AFTER_PASS),
        called=titles(),
        reason=filing.reason,
        listed_title=filing.listed.title if filing.listed else "",
    )
    return render(draft, tracker)


def limit_reached(folder: Path, most: int) -> str | None:
    """Why no more than the other drafts of the corpus may be written today (UTC); None if one more may.

    `folder` is the finding's, and a draft's day is the one on which its file was last written.
    """
    today = utc_today()
    others = (file for file in folder.parent.glob(f"*/{DRAFT}") if file.parent != folder)
    count = sum(datetime.fromtimestamp(file.stat().st_mtime, UTC).date() == today for file in others)
    if count < most:
        return None
    drafted = "1 finding of this corpus was" if count == 1 else f"{count} findings of this corpus were"
    return f"{drafted} drafted today, and {most} a day are allowed"


def measurement_of(corpus: Corpus, finding: Finding) -> Measurement | None:
    """The diverging tensor's measurement in the finding's own run; None if nothing was measured."""
    for run in corpus.observations():
        if (
            run.case == finding.case
            and run.backend == finding.divergence.backend
            and finding.fingerprint in run.fingerprints
        ):
            place = (finding.divergence.stage, finding.divergence.tensor)
            return next((m for m in run.measurements if (m.stage, m.tensor) == place), None)
    return None


def versions(finding: Finding, case: Case) -> tuple[tuple[str, str], ...]:
    """Versions by package: those that the finding's run reported, for other packages those installed here.

    The latter need not be what ran, and their names say so.
    """
    from workers.backends import profile

    run = "in the run" if case.id == finding.case else "in the original case's run"
    reported = tuple(
        (f"{name} ({run})", value) for name, value in sorted(finding.environment.items()) if value.strip()
    )
    here = tuple(
        (f"{name} ({HERE})", installed.version(name) or "not installed")
        for name in installed.COMPUTING
        if name not in finding.environment
    )
    on_pjrt = profile(finding.divergence.backend).on_pjrt
    device = finding.environment.get("device") if on_pjrt else None
    return (*reported, *here, *((("PJRT device", device),) if device else ()))


def collect_env(python: str) -> str:
    """The output of `torch.utils.collect_env` with `python`, or why there is none."""
    try:
        done = subprocess.run(  # noqa: S603  that of the finding's environment
            [python, "-P", "-m", "torch.utils.collect_env"],
            capture_output=True,
            text=True,
            check=False,
            timeout=COLLECT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"collect_env did not run: {error}"
    if done.returncode == 0:
        return done.stdout
    return f"collect_env failed: {done.stderr.strip().splitlines()[-1:]}"


def artifacts(folder: Path) -> tuple[str, ...]:
    """The files in a finding's folder of artifacts, as paths relative to the finding's `folder`, sorted."""
    files = (file for file in (folder / ARTIFACTS).glob("*") if file.is_file())
    return tuple(sorted(f"{ARTIFACTS}/{file.name}" for file in files))


def graph(folder: Path, files: tuple[str, ...]) -> str:
    """The last of the kept graphs as StableHLO, if it is short enough to be read; else empty."""
    kept = [folder / name for name in files if name.endswith(".stablehlo.txt")]
    text = kept[-1].read_text(errors="replace") if kept else ""
    return text if len(text) <= MOST_GRAPH else ""

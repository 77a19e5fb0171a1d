"""`difftest draft`: an issue for the tracker that a finding belongs to, as a file. Nothing is posted."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from difftest import installed
from difftest.cases.case import Case
from difftest.commands.reproducer import ARTIFACTS, put, read_finding
from difftest.commands.service.options import json_option, print_json
from difftest.judge.measured import Measurement
from difftest.records.corpus import SAID, SCRIPT, Corpus
from difftest.records.finding import Finding

DRAFT = "issue.md"
MOST_A_DAY = 5
COLLECT_SECONDS = 120.0


@click.command("draft")
@click.argument("target", metavar="FINDING", type=click.Path(path_type=Path))
@click.option("--tracker", metavar="NAME", help="pytorch, xla or openxla.  [default: as the evidence says]")
@click.option(
    "--most-a-day",
    type=click.IntRange(min=1),
    default=MOST_A_DAY,
    show_default=True,
    help="The most drafts of a corpus in a day.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where the draft goes.  [default: issue.md in the finding's folder]",
)
@json_option
def command(target: Path, tracker: str | None, most_a_day: int, out: Path | None, *, as_json: bool) -> int:
    """Write an issue for a finding; exit status 1 when it is reported already or unsteady, or enough were drafted today."""
    from reports.draft import draft

    finding, case, folder = read_finding(target)
    if tracker is not None:
        _require(tracker, draft.trackers())
    chosen = tracker or draft.tracker(finding)
    reason = draft.refusal(finding) or over(folder, most_a_day)
    file = out or folder / DRAFT
    if reason is None:
        known = draft.Draft(
            finding=finding,
            case=case,
            measurement=measured(Corpus(folder.parent), finding),
            reproducer=_text(folder / SCRIPT),
            said=_text(folder / SAID),
            versions=versions(finding, case),
            collected=collect_env(),
            artifacts=tuple(
                sorted(f"{ARTIFACTS}/{one.name}" for one in (folder / ARTIFACTS).glob("*") if one.is_file())
            ),
        )
        put(file, draft.render(known, chosen))
    _tell(finding, chosen, file, reason, as_json=as_json)
    return int(reason is not None)


def _tell(finding: Finding, tracker: str, file: Path, reason: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "fingerprint": finding.fingerprint,
                "tracker": tracker,
                "file": None if reason else str(file),
                "reason": reason,
            }
        )
    elif reason:
        click.echo(f"{finding.fingerprint}: not drafted: {reason}", err=True)
    else:
        click.echo(
            f"{finding.fingerprint}: drafted for {tracker} in {file}; read it, and post it yourself if you agree"
        )


def _require(tracker: str, allowed: tuple[str, ...]) -> None:
    if tracker not in allowed:
        msg = f"{tracker!r} is no tracker; allowed: {', '.join(allowed)}"
        raise click.BadParameter(msg, param_hint="--tracker")


def over(folder: Path, most: int) -> str | None:
    """Why no more may be drafted today (UTC), by the dates of the corpus's other drafts; None where one more may."""
    today = datetime.now(UTC).date()
    others = (file for file in folder.parent.glob(f"*/{DRAFT}") if file.parent != folder)
    drafted = sum(datetime.fromtimestamp(file.stat().st_mtime, UTC).date() == today for file in others)
    return (
        f"{drafted} findings of this corpus were drafted today, and {most} a day are allowed"
        if drafted >= most
        else None
    )


def measured(corpus: Corpus, finding: Finding) -> Measurement | None:
    """The diverging tensor's measurement in the run that the finding is from; None where nothing was measured."""
    for seen in corpus.observations():
        if (
            seen.case == finding.case
            and seen.backend == finding.divergence.backend
            and finding.fingerprint in seen.fingerprints
        ):
            return next(
                (
                    m
                    for m in seen.measurements
                    if (m.stage, m.tensor) == (finding.divergence.stage, finding.divergence.tensor)
                ),
                None,
            )
    return None


def versions(finding: Finding, case: Case) -> tuple[tuple[str, str], ...]:
    """What the finding's run reported; of packages that it did not name, what is installed here, which need not be what ran."""
    run = "in the run" if case.id == finding.case else "in the original case's run"
    told = tuple(
        (f"{name} ({run})", value) for name, value in sorted(finding.environment.items()) if value.strip()
    )
    here = tuple(
        (f"{name} (where this was drafted)", installed.version(name) or "not installed")
        for name in installed.COMPUTING
        if name not in finding.environment
    )
    device = finding.environment.get("device") if finding.divergence.side == "xla" else None
    return (*told, *here, *((("PJRT device", device),) if device else ()))


def collect_env(python: str = sys.executable) -> str:
    """What `torch.utils.collect_env` prints in the workers' Python; why not, where it cannot."""
    try:
        done = subprocess.run(  # noqa: S603  our own Python
            [python, "-P", "-m", "torch.utils.collect_env"],
            capture_output=True,
            text=True,
            check=False,
            timeout=COLLECT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"collect_env did not run: {error}"
    return (
        done.stdout
        if done.returncode == 0
        else f"collect_env failed: {done.stderr.strip().splitlines()[-1:]}"
    )


def _text(file: Path) -> str:
    return file.read_text() if file.is_file() else ""

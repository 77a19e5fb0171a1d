"""`difftest draft`: an issue for the tracker that a finding belongs to, as a file. Nothing is posted."""

from pathlib import Path

import click

from difftest.commands import Group
from difftest.commands.service import drafting
from difftest.commands.service.drafting import MOST_A_DAY
from difftest.commands.service.finding_path import FindingPath
from difftest.commands.service.options import json_option
from difftest.commands.service.output import print_json, write_text
from difftest.commands.service.targets import FindingTarget, read_finding
from difftest.findings.ledger import read_ledger
from difftest.findings.titles import reason_of
from difftest.records import own_scripts, read_limits
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


GROUP = Group.REPORT


@click.command("draft")
@click.argument("target", metavar="FINDING", type=FindingPath())
@click.option(
    "--tracker", metavar="NAME", help="pytorch, xla or openxla.  [default: according to the evidence]"
)
@click.option(
    "--most-a-day",
    type=click.IntRange(min=1),
    default=MOST_A_DAY,
    show_default=True,
    help="The largest number of drafts for a corpus in one day (UTC).",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where to write the draft.  [default: issue.md in the finding's folder]",
)
@json_option
def command(target: Path, tracker: str | None, most_a_day: int, out: Path | None, *, as_json: bool) -> int:
    """Write an issue for a finding.

    Exit status 1 when the finding is reported already, does not reproduce reliably, or the day's number of
    drafts is reached.
    """
    from reports.draft.draft import trackers
    from reports.draft.refusal import refusal
    from reports.draft.releases import untried
    from reports.draft.tracker import tracker as tracker_of

    subject = read_finding(target)
    if tracker is not None:
        _require(tracker, trackers())
    chosen = tracker or tracker_of(subject.finding)
    reason = refusal(subject.finding) or drafting.limit_reached(subject.folder, most_a_day)
    file = out or subject.folder / DRAFT
    script, output = _read(subject.folder / SCRIPT), _read(subject.folder / OUTPUT)
    ran_here = own_scripts.has_printed(subject.finding.fingerprint, script, output)
    if reason is None:
        write_text(file, _text(subject, chosen, script, output, ran_here=ran_here))
    _print(subject.finding, chosen, file, reason, as_json=as_json)
    if not reason and (newest := untried(subject.finding)):
        click.echo(f"difftest: not tried on {newest}, {_how_to_try(subject.finding, newest)}", err=True)
    if script and not (ran_here or reason):
        click.echo(f"difftest: {str(subject.folder / SCRIPT)!r} {UNKNOWN}", err=True)
    return int(reason is not None)


def _how_to_try(finding: Finding, newest: str) -> str:
    from reports.draft.releases import tried

    package, release = newest.split()
    return UNTRIED.format(package=package, tried=",".join(tried(finding)), newest=release)


def _text(subject: FindingTarget, tracker: str, script: str, output: str, *, ran_here: bool) -> str:
    from reports.draft.draft import Draft, render
    from workers.backends import titles

    draft = Draft(
        finding=subject.finding,
        case=subject.case,
        measurement=drafting.measurement_of(subject.corpus, subject.finding),
        reproducer=script,
        output=output,
        ran_here=ran_here,
        versions=drafting.versions(subject.finding, subject.case),
        collected=drafting.collect_env(),
        artifacts=drafting.artifacts(subject.folder),
        called=titles(),
        reason=reason_of(subject.finding, subject.case, read_ledger()),
    )
    return render(draft, tracker)


def _print(finding: Finding, tracker: str, file: Path, reason: str | None, *, as_json: bool) -> None:
    name = finding.fingerprint
    if as_json:
        written = None if reason else str(file)
        print_json({"fingerprint": name, "tracker": tracker, "file": written, "reason": reason})
    elif reason:
        click.echo(f"{name}: not drafted: {reason}", err=True)
    else:
        click.echo(f"{name}: drafted for {tracker} in {file}; read it, and post it yourself if you agree")


def _require(tracker: str, allowed: tuple[str, ...]) -> None:
    if tracker not in allowed:
        msg = f"{tracker!r} is not a tracker; allowed: {', '.join(allowed)}"
        raise click.BadParameter(msg, param_hint="--tracker")


def _read(file: Path) -> str:
    if not file.is_file():
        return ""
    return read_limits.read(file, read_limits.MOST_SCRIPT_BYTES).decode(errors="replace")

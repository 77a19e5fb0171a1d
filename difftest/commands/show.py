"""`difftest show`: one finding on the terminal, with what the page has of it."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from difftest.commands import Group
from difftest.findings import titles
from difftest.findings.causes import Cause, causes
from difftest.findings.standing import Standing, in_words, of_cause
from difftest.jobs.ask.finding_path import FindingPath
from difftest.jobs.ask.options import Json, own_options
from difftest.jobs.ask.targets import FindingTarget, read_finding
from difftest.jobs.screen.terminal import Style, print_line
from difftest.records.evidence import OTHER, OTHER_SINGLE, SINGLE
from difftest.records.finding import Finding

if TYPE_CHECKING:
    from reports.report import Report

GROUP = Group.UNDERSTAND

MOST_MESSAGE = 12
"""How many lines of a finding's message are printed; `finding.json` has all."""

WIDEST = 120
"""Longer lines are hard to read on a wide terminal, and logs have no width."""


@click.command("show")
@click.argument("target", metavar="FINDING", type=FindingPath(within="out"))
@click.option(
    "--out",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    is_eager=True,
    help="The campaign's folder in which FINDING is.  [default: runs/* and your last campaigns' folders]",
)
@own_options
def command(target: Path, out: Path | None, *, as_json: Json) -> None:
    """Show a finding: what is wrong and where, the evidence, its files, and the next commands.

    FINDING is its folder, or the last eight characters of its fingerprint.
    """
    del out  # it says where the target is
    shown = read_finding(target)
    if as_json:
        click.echo(shown.finding.to_json().decode().rstrip())
        return
    from reports.report import of_finding
    from workers.backends import titles as titles_of_backends

    report = of_finding(
        shown.corpus, shown.finding, titles_of_backends(), Path(os.path.relpath(shown.folder))
    )
    (cause,) = causes((shown.finding,))
    _print_head(report, cause)
    _print_evidence(report, cause)
    _print_next(report, shown)


def _print_head(report: "Report", cause: Cause) -> None:
    """The title, and what has become of the finding."""
    title = titles.shared(report.of(cause.finding).title, cause.backends, report.called)
    for line in _wrapped(title, ""):
        print_line((Style.STRONG, line))
    unknown = of_cause(cause) is Standing.UNKNOWN
    words = "nobody has explained it" if unknown else cause.finding.upstream
    print_line((Style.ALARM if unknown else Style.KNOWN, f"{in_words(cause)}: {words}".rstrip(": ")))


def _print_evidence(report: "Report", cause: Cause) -> None:
    """The facts, the 2 x 2, the ranks that are wrong, and the message."""
    from reports.page.finding import facts, other_side, two_by_two

    named = {name: value for name, value in facts(report, cause).items() if value}
    cells = {name: cell.words for name, cell in two_by_two(cause.finding).items()}
    click.echo()
    click.echo("\n".join(_aligned(named)))
    if cells:
        shown = cause.finding.divergence
        click.echo("\n".join(("", *_table(report.spoken(shown.backend), other_side(shown), cells))))
    if cause.finding.pieces:
        click.echo("\n".join(("", *_ranks(cause.finding))))
    message = cause.finding.divergence.detail.splitlines()
    if message:
        rest = len(message) - MOST_MESSAGE
        more = [f"[{rest} more lines in finding.json]"] if rest > 0 else []
        click.echo("\n".join(("", *(f"  {line}" for line in (*message[:MOST_MESSAGE], *more)))))


def _print_next(report: "Report", shown: FindingTarget) -> None:
    """The files, and the commands for what comes next."""
    from reports.page.finding import FILES, next_commands

    folder = Path(os.path.relpath(shown.folder))
    files = {str(folder / name): words for name, words in FILES.items() if (shown.folder / name).exists()}
    for rows in (files, dict(next_commands(report, shown.finding))):
        click.echo()
        width = max(map(len, rows), default=0)
        for row, words in rows.items():
            print_line(f"{row:<{width}}  ", (Style.SOFT, words))


def _aligned(rows: Mapping[str, str]) -> Iterator[str]:
    """Names and values in two columns; long values go on below themselves."""
    width = max(map(len, rows), default=0)
    for name, value in rows.items():
        yield from _wrapped(value, f"{name:<{width}}  ")


def _wrapped(text: str, first: str) -> list[str]:
    """A text after the beginning of its first line, under which its other lines are, too."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDEST
    below = " " * len(first)
    room = max(min(width, WIDEST), len(first) + 20)
    return textwrap.wrap(text, room, initial_indent=first, subsequent_indent=below) or [first.rstrip()]


def _table(backend: str, other: str, cells: Mapping[str, str]) -> list[str]:
    """The 2 x 2 of sides and layouts, beside the float64 reference."""
    width = max(len(backend), len(other))
    wide = max(len("one device"), len(cells[SINGLE]), len(cells[OTHER_SINGLE]))
    return [
        f"{'':<{width}}  {'one device':<{wide}}  this layout",
        f"{backend:<{width}}  {cells[SINGLE]:<{wide}}  diverges",
        f"{other:<{width}}  {cells[OTHER_SINGLE]:<{wide}}  {cells[OTHER]}",
    ]


def _ranks(finding: Finding) -> Iterator[str]:
    """A line for the piece of each rank that is wrong."""
    from reports.page.grid import part_in_words

    wrong = [piece for piece in finding.pieces if piece.wrong]
    tensor = finding.divergence.tensor
    yield f"{tensor} is wrong on {len(wrong)} of {len(finding.pieces)} ranks"
    for piece in wrong:
        part = part_in_words(piece.part)
        yield f"  rank {piece.rank}: {piece.wrong} of {piece.elements} elements of {part}"

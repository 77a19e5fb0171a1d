"""`difftest passes`: which pass of XLA makes a program's numbers wrong, or does not end."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from difftest.commands import Group
from difftest.jobs.ask.finding_path import FindingPath
from difftest.jobs.ask.options import Deciding, Json, Trust, own_options
from difftest.jobs.ask.targets import read_finding
from difftest.jobs.screen.activity import Working
from difftest.jobs.screen.output import print_json, write_text

if TYPE_CHECKING:
    from difftest.jobs.filing.accusation import Accusation

GROUP = Group.UNDERSTAND


@click.command("passes")
@click.argument("target", metavar="FINDING|FAULT|FILE", type=FindingPath())
@click.option(
    "--environment",
    cls=Deciding,
    metavar="NAME",
    help="An environment of `difftest environments` whose XLA to run.  [default: this one]",
)
@click.option("--whole", is_flag=True, help="Do not look for the smallest module that shows it.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for the module before and after the pass.  [default: the finding's artifacts]",
)
@own_options
def command(  # noqa: PLR0913  click hands over what the decorators declare
    target: Path, environment: str | None, out: Path | None, *, whole: bool, trust: Trust, as_json: Json
) -> int:
    """Name the pass of XLA that is at fault.

    Exit status 1 if neither a pass nor XLA's code generation is at fault, or if that cannot be decided.

    It takes a finding with a reproducer, the name of a known fault of XLA, or a file: a script on JAX or
    torch_xla, HLO or StableHLO. XLA writes the module after every pass, and each is evaluated without XLA.
    The first whose numbers are wrong names the pass; the one before it is the control.
    """
    from difftest.jobs.filing.accusation import accuse, keep, program_of

    program = program_of(target, environment, trust=trust)
    with Working("passes", counts=False):
        accusation = accuse(program, whole=whole)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in accusation.modules().items():
            write_text(out / name, text)
    if target.is_dir():
        keep(read_finding(target), accusation)
    if as_json:
        print_json(_described(accusation))
    else:
        _print(accusation)
    return int(not accusation.verdict.accuses)


def _described(accusation: "Accusation") -> dict[str, Any]:
    verdict = accusation.verdict
    return {
        "pass": verdict.guilty or None,
        "kind": verdict.kind,
        "pipeline": verdict.pipeline,
        "compiled": verdict.compiled,
        "reason": verdict.reason,
        "control": verdict.control,
        "evaluated": verdict.evaluated,
        "snapshots": verdict.snapshots,
        "numbers": verdict.call.numbers if verdict.call else "",
        **accusation.modules(),
    }


def _print(accusation: "Accusation") -> None:
    verdict = accusation.verdict
    click.echo(f"{verdict.name}: {verdict.reason}")
    if verdict.control:
        click.echo(f"control: {verdict.control}")
    if verdict.evaluated:
        click.echo(f"{verdict.compiled}: {verdict.evaluated} of {verdict.snapshots} modules were evaluated")
    for name, text in accusation.modules().items():
        click.echo(f"\n{name}:\n{text.strip()}")

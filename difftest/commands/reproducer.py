"""`difftest reproducer`: a script that shows a finding, run in a fresh process before it is kept."""

from pathlib import Path
from typing import Any

import click

from difftest.commands import Group
from difftest.jobs.ask.capacity import check_runnable
from difftest.jobs.ask.consent import require_own_finding
from difftest.jobs.ask.finding_path import FindingPath
from difftest.jobs.ask.options import Deciding, Json, Trust, own_options
from difftest.jobs.ask.targets import FindingTarget, read_finding
from difftest.jobs.filing.execution import executing, machine
from difftest.jobs.filing.recompilation import replayed
from difftest.jobs.filing.reproduction import Reproduction, keep_script, reproduce
from difftest.jobs.screen.activity import Working
from difftest.jobs.screen.output import print_json
from difftest.judge.fingerprint import readable
from difftest.records.corpus import SCRIPT

GROUP = Group.REPORT


@click.command("reproducer")
@click.argument("target", metavar="FINDING", type=FindingPath())
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where to write the script.  [default: reproducer.py in the finding's folder]",
)
@click.option(
    "--artifacts/--no-artifacts",
    default=True,
    help="Keep what XLA compiled in the folder artifacts.  [default: keep]",
)
@click.option(
    "--jax-python",
    cls=Deciding,
    type=click.Path(path_type=Path, exists=True),
    help="Recompile the graph of a crash with this Python's jaxlib.",
)
@own_options
def command(  # noqa: PLR0913  click hands over what the decorators declare
    target: Path, out: Path | None, jax_python: Path | None, *, artifacts: bool, trust: Trust, as_json: Json
) -> int:
    """Write one self-contained script that shows a finding.

    Exit status 1, and no script, when none shows it. It asks first about a
    finding that difftest did not make for you.
    """
    subject = read_finding(target)
    check_runnable(subject.case, trust=trust)
    require_own_finding(subject, trust=trust)
    with executing(subject, machine("reproducer", None)) as execute, Working("reproducer"):
        reproduction = reproduce(subject.finding, subject.case, execute)
    file = out or subject.folder / SCRIPT
    kept = keep_script(subject, reproduction, file, graphs=artifacts)
    recompiled = (
        replayed(subject, jax_python, reproduction.script.text)[1]
        if kept and jax_python and reproduction.script
        else None
    )
    result = _result(subject, reproduction, file, kept, recompiled)
    if as_json:
        print_json(result)
    else:
        _print(result)
    return int(reproduction.reason is not None)


def _result(
    subject: FindingTarget,
    reproduction: Reproduction,
    file: Path,
    kept: tuple[str, ...],
    recompiled: str | None,
) -> dict[str, Any]:
    return {
        "fingerprint": subject.finding.fingerprint,
        "case": subject.case.id,
        "file": None if reproduction.reason else str(file),
        "reason": reproduction.reason,
        "replayed": recompiled,
        "lines": reproduction.script.text.count("\n") if reproduction.script else None,
        "said": reproduction.script.output if reproduction.script else None,
        "artifacts": list(kept),
    }


def _print(result: dict[str, Any]) -> None:
    output, name = result["said"] or "", readable(result["fingerprint"])
    if result["reason"]:
        click.echo(f"{output}{name}: no reproducer: {result['reason']}", err=True)
        return
    click.echo(f"{output}{name}: shown by {result['file']}, {result['lines']} lines")
    if result["artifacts"]:
        click.echo(f"artifacts: {', '.join(result['artifacts'])}")
    if result["replayed"]:
        click.echo(f"recompiled: {result['replayed']}")

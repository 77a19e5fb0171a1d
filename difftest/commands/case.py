"""`difftest case`: one case as JSON, which `difftest replay` and other commands take as a file.

It is a generated one, or that of a module of a recorded run.
"""

from pathlib import Path
from typing import Any

import click

from difftest.cases.case_number import CaseNumber
from difftest.commands import Group
from difftest.ground.errors import UsageError
from difftest.jobs.ask.case_source import Drawing
from difftest.jobs.ask.options import options
from difftest.jobs.ask.own_model import take_model
from difftest.jobs.ask.recorded_module import Wanted, recorded_case

GROUP = Group.ASK


@click.command("case")
@click.option(
    "--index",
    "number",
    default="0",
    show_default=True,
    metavar="NUMBER",
    help="The case: 7, program-7, or 7/2 for the second further input of case 7.",
)
@click.option(
    "--from",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="RUN",
    help="The folder of a run that difftest.record has recorded; the case is one of its modules.",
)
@click.option("--step", "at", type=click.IntRange(min=0), help="With --from: the step whose inputs it has.")
@click.option("--module", help="With --from: the module, such as layers.3.attn, of what --model builds.")
@options(Drawing, without={"inputs", "programs"})
def command(
    number: str,
    folder: Path | None,
    at: int | None,
    module: str | None,
    **options: Any,  # noqa: ANN401  click hands over what the decorators declare
) -> int:
    """Print one case as JSON.

    It is case NUMBER of the campaign with this seed, these paths, this model and this world size. With --from
    it is made of one module of a recorded run: its inputs, parameters and placements in a step. The module's
    source is written into the working directory.
    """
    if folder is not None:
        if at is None or module is None or options["model"] is None:
            msg = "--from needs --step, --module, and --model with the function that builds the whole model"
            raise UsageError(msg)
        wanted = Wanted(folder=folder, step=at, path=module, source=options["model"])
        click.echo(recorded_case(wanted, options["seed"]).to_json().decode())
        return 0
    if at is not None or module is not None:
        msg = "--step and --module need --from, with the folder of a recorded run"
        raise UsageError(msg)
    options["model"] = take_model(options)
    drawing = Drawing(**options)
    click.echo(drawing.case(CaseNumber.read(number).recorded).to_json())
    return 0

"""`difftest case`: one generated case as JSON, which `difftest replay` and other commands take as a file."""

from typing import Any

import click

from difftest.cases.case_number import CaseNumber
from difftest.commands import Group
from difftest.jobs.ask.case_source import Drawing
from difftest.jobs.ask.options import options
from difftest.jobs.ask.own_model import take_model

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
@options(Drawing, without={"inputs", "programs"})
def command(number: str, **options: Any) -> int:  # noqa: ANN401  click hands over what the decorators declare
    """Print one generated case as JSON.

    It is case NUMBER of a campaign with the same seed, paths, model and world size.
    """
    options["model"] = take_model(options)
    drawing = Drawing(**options)
    click.echo(drawing.case(CaseNumber.read(number).recorded).to_json())
    return 0

"""`difftest case`: one generated case as JSON, which `difftest replay` and other commands take as a file."""

from typing import Any

import click

from difftest.commands import Group
from difftest.commands.service.drawing import Drawing
from difftest.commands.service.options import (
    USUAL_PATHS,
    max_world_size_option,
    own_model_options,
    paths_option,
    seed_option,
)
from difftest.commands.service.own_model import take_model

GROUP = Group.ASK


@click.command("case")
@seed_option
@click.option(
    "--index", type=click.IntRange(min=0), default=0, show_default=True, help="The number of the case."
)
@own_model_options
@paths_option(USUAL_PATHS)
@max_world_size_option
def command(index: int, **options: Any) -> int:  # noqa: ANN401  click hands over what the decorators declare
    """Print one generated case as JSON.

    It is case INDEX of a campaign with the same seed, paths, model and world size.
    """
    options["model"] = take_model(options)
    drawing = Drawing(**options)
    click.echo(drawing.case(index).to_json())
    return 0

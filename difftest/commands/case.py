"""`difftest case`: one generated case as JSON, which `difftest replay` and other commands take as a file."""

import click

from difftest.commands import Group
from difftest.commands.service.drawing import Drawing
from difftest.commands.service.options import (
    max_world_size_option,
    model_option,
    paths_option,
    seed_option,
)
from difftest.commands.service.own_model import describe_model

GROUP = Group.ASK


@click.command("case")
@seed_option
@click.option(
    "--index", type=click.IntRange(min=0), default=0, show_default=True, help="The number of the case."
)
@model_option
@paths_option
@max_world_size_option
def command(seed: int, index: int, model: str | None, paths: tuple[str, ...], max_world_size: int) -> int:
    """Print one generated case as JSON.

    It is case INDEX of a campaign with the same seed, paths, model and world size.
    """
    description = describe_model(model, max_world_size)
    drawing = Drawing(seed=seed, model=description, paths=paths, max_world_size=max_world_size)
    click.echo(drawing.case(index).to_json())
    return 0

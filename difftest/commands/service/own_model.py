"""The option `--model`: a module of the user's, described once before anything runs."""

import click

from difftest.cases.described import Description
from difftest.commands.service.ranks import check_world_size


def describe_model(source: str | None, max_world_size: int) -> Description | None:
    """What is known of `source`, and None for None; says on standard error what its cases will lack.

    `UsageError` where it is no model that can be compared.
    """
    check_world_size(max_world_size)
    if source is None:
        return None
    from generators.own import meshes
    from workers.isolate.described import described

    click.echo(f"{source}: building it, and running it with four rows ...", err=True)
    description = described(source, meshes(max_world_size))
    layer = description.layer
    click.echo(
        f"{source}: {layer.title}, {len(layer.parameters)} parameters, loss {description.loss}", err=True
    )
    for dtype, reason in description.refused.items():
        click.echo(f"{source}: no cases in {dtype}: {reason}", err=True)
    if description.noise:
        click.echo(f"{source}: {description.noise}: little can be compared", err=True)
    if not layer.rowwise:
        click.echo(
            f"{source}: rows influence each other, as in batch normalization: no accumulation, and wrappers "
            "whose ranks compute with rows of their own are not compared",
            err=True,
        )
    return description

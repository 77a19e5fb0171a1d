"""The option `--model`: a module of the user's, described once before anything runs, and its long runs."""

from typing import Any

import click
import msgspec

from difftest.cases.case import MOST_STEPS
from difftest.cases.described import Description
from difftest.commands.service.consent import noted
from difftest.commands.service.ranks import check_world_size
from difftest.errors import UsageError
from difftest.judge.checks.convergence import LEAST_STEPS
from difftest.records.own_cases import remember_module

LEARNING_STEPS = 50
"""How many steps `--convergence` has unless told."""


def take_model(options: dict[str, Any]) -> Description | None:
    """Takes `--model`, `--steps` and `--convergence` out of a command's options: what they describe."""
    source, steps, convergence = (options.pop(name) for name in ("model", "steps", "convergence"))
    return describe_model(source, options["max_world_size"], steps=steps, convergence=convergence)


def describe_model(
    source: str | None, max_world_size: int, *, steps: int | None = None, convergence: bool = False
) -> Description | None:
    """What is known of `source`, and None for None; says on standard error what its cases will lack.

    `steps` is how many every case has, None for a few. With `convergence` every step gets the same batch, and
    whether the model learns is compared.

    `UsageError` where it is no model that can be compared, or the steps are too few or too many.
    """
    check_world_size(max_world_size)
    _check_steps(source, steps, convergence=convergence)
    if source is None:
        return None
    description = _described(source, max_world_size)
    steps = steps or (LEARNING_STEPS if convergence else None)
    return msgspec.structs.replace(description, steps=steps, learnable=convergence)


def _check_steps(source: str | None, steps: int | None, *, convergence: bool) -> None:
    if source is None and (steps is not None or convergence):
        option = "--convergence" if convergence else "--steps"
        msg = f"{option} needs --model: other cases have steps of their own"
        raise UsageError(msg)
    least = LEAST_STEPS if convergence else 1
    if steps is not None and not least <= steps <= MOST_STEPS:
        whose = "steps with --convergence" if convergence else "steps"
        msg = f"{steps} {whose}; allowed: {least} to {MOST_STEPS}"
        raise UsageError(msg)


def _described(source: str, max_world_size: int) -> Description:
    from generators.own import meshes
    from workers.isolate.described import described

    click.echo(f"{source}: building it, and running it with four rows ...", err=True)
    description = described(source, meshes(max_world_size))
    layer = description.layer
    noted(lambda: remember_module(layer))  # the user has named it
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

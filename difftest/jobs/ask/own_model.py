"""The option `--model`: a module of the user's, described once before anything runs, and its long runs."""

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from difftest.cases.case import MOST_STEPS
from difftest.cases.described import Description
from difftest.cases.layout import Mesh
from difftest.ground.errors import UsageError
from difftest.jobs.ask.capacity import check_world_size
from difftest.jobs.ask.consent import noted
from difftest.judge.checks.convergence import LEAST_STEPS
from difftest.records.own_cases import remember_module

MEAN_OF_MEANS = (
    "the loss is a mean over the targets that are not ignored (-100), of which ranks have unequal numbers. "
    "The right loss is their sum divided by their number in the whole batch (the global count). The cases "
    "here compute it so. DDP and FSDP by themselves give the mean of the ranks' means, which is wrong: for "
    "two halves of four rows its gradient is {off:.0%} off"
)

LEARNING_STEPS = 50
"""The default number of steps with `--convergence`."""


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
    from generators.own import meshes

    description = describe_source(source, meshes(max_world_size))
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


def describe_source(source: str, meshes: Sequence[Mesh]) -> Description:
    """What is known of a source, which is run once; the user who names it trusts it from then on."""
    from workers.isolate.described import described

    click.echo(f"{source}: building it, and running it with four rows ...", err=True)
    description = described(source, meshes)
    layer = description.layer
    if not layer.recipe:
        noted(lambda: remember_module(layer))  # the user has named it
    click.echo(
        f"{source}: {layer.built}, {len(layer.parameters)} parameters, loss {description.loss}", err=True
    )
    for remark in remarks(description):
        click.echo(f"{source}: {remark}", err=True)
    return description


def remarks(description: Description) -> Iterator[str]:
    """What its cases will lack or how they are computed, a sentence each."""
    layer = description.layer
    yield from (f"no cases in {dtype}: {reason}" for dtype, reason in description.refused.items())
    if description.noise:
        yield f"{description.noise}: little can be compared"
    if layer.reads:
        names = ", ".join(f"{name} {times}" for name, times in layer.reads.items())
        times = counted(sum(layer.reads.values()))
        yield f"reads a number {times} a step ({names}), which breaks the graph on XLA and in torch.compile"
    if description.decomposed:
        names = ", ".join(description.decomposed)
        yield f"the reference computes {names} by other operators: torch has no float64 kernel for it"
    if description.left_out:
        names = ", ".join(description.left_out)
        yield f"not compared: {names}, which it returns or keeps, is infinite or mostly rounding"
    if description.mean_of_means:
        yield MEAN_OF_MEANS.format(off=description.mean_of_means)
    if not layer.rowwise:
        what = (
            "the loss of a batch is not the mean of those of its rows or targets"
            if description.unequal_loss
            else "rows influence each other, as in batch normalization"
        )
        lack = "no accumulation, and " + (
            "half of the cases have a batch on every rank, as wrappers compute"
            if layer.parts_run
            else "wrappers whose ranks compute with rows of their own are not compared"
        )
        yield f"{what}: {lack}"


def counted(times: int) -> str:
    """A number of times, in words where English has one."""
    return {1: "once", 2: "twice"}.get(times, f"{times} times")

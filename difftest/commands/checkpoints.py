"""`difftest checkpoints`: two checkpoints of any format and sharding, tensor by tensor."""

from pathlib import Path
from typing import Annotated

import click

from difftest.commands import Group
from difftest.ground.errors import UsageError
from difftest.jobs.ask.options import Json, option, own_options
from difftest.jobs.campaign.run_pairs import names_of
from difftest.jobs.screen.output import print_json
from difftest.runs.checkpoint_words import lines
from difftest.runs.checkpoints import compare_checkpoints

GROUP = Group.FIND


@click.command("checkpoints")
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@own_options
def command(
    first: Path,
    second: Path,
    *,
    noise: Annotated[
        tuple[Path, ...],
        option(
            type=click.Path(path_type=Path),
            multiple=True,
            help="The same step of a repetition with difftest.record(..., perturb=1). May be repeated.",
        ),
    ],
    name: Annotated[
        tuple[str, ...],
        option(
            multiple=True,
            metavar="FIRST=SECOND",
            help="The name of a tensor or module in the first checkpoint and in the second. May be repeated.",
        ),
    ],
    as_json: Json,
) -> int:
    """Compare two checkpoints, tensor by tensor, against the rounding noise of one step.

    Each is a file of torch.save or safetensors, a folder of these, or one of torch.distributed.checkpoint.
    No code of a checkpoint runs.
    """
    from workers.checkpoints import read

    for path in noise:
        if path.resolve() in (first.resolve(), second.resolve()):
            msg = f"--noise is {str(path)!r}, one of the two compared; give the checkpoint of a repetition"
            raise UsageError(msg)
    repetitions = [read(path) for path in noise]
    comparison = compare_checkpoints(read(first), read(second), noise=repetitions, names=names_of(name))
    if as_json:
        print_json(comparison.described() | {"status": comparison.status})
    else:
        click.echo("\n".join(lines(comparison)))
    return comparison.status

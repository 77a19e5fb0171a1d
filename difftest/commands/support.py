"""`difftest support`: which backend can express which path, and why not."""

from typing import Annotated

import click

from difftest.commands import Group
from difftest.jobs.ask.options import USUAL_PATHS, Json, own_options, paths_option
from difftest.jobs.proof.support_table import SAMPLE, PathSupport, markdown, table
from difftest.jobs.screen.output import print_json


def rows(paths: tuple[str, ...] = ()) -> list[PathSupport]:
    """The table over the first cases of seed 0, and as many programs where there are any."""
    from generators.cases import case_at
    from generators.paths import chosen
    from generators.sequence import numbers
    from workers.backends import candidates

    drawn = (case_at(0, index, paths=paths or None) for index in numbers(chosen(paths or None), SAMPLE))
    return table(drawn, candidates())


GROUP = Group.ASK


@click.command("support")
@own_options
def command(*, as_json: Json, paths: Annotated[tuple[str, ...], paths_option(USUAL_PATHS)]) -> None:
    """Print which backend supports which path, and why it does not support the others.

    A cell is the share of a sample of generated cases that the backend can run.
    """
    table_rows = rows(paths)
    if as_json:
        support = [
            {"path": r.path, "backend": r.backend, "support": r.word, "reasons": r.reasons}
            for r in table_rows
        ]
        print_json({"cases": SAMPLE, "support": support})
        return
    click.echo(markdown(table_rows))
    click.echo(
        f"\nyes: all of the path's cases among {SAMPLE}, and as many programs, are supported; "
        "a share: so many of them are. Why the others are not:"
    )
    for row in table_rows:
        for reason in row.reasons:
            click.echo(f"  {row.path} on {row.backend}: {reason}")

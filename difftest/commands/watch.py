"""`difftest watch`: what newer releases of torch and XLA fix, break and change."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import click

from difftest.commands import Group
from difftest.findings.faults import read_faults
from difftest.findings.flips import Became
from difftest.ground.errors import InfrastructureError
from difftest.jobs.ask.options import Deciding, Duration, Json, Workers, option, options
from difftest.jobs.screen.output import print_json
from difftest.jobs.watch.releases import PACKAGES, Release, in_file, in_index, newer, parsed
from difftest.jobs.watch.watch import Watch, watch

GROUP = Group.FIND


@dataclass(frozen=True, kw_only=True)
class WatchRequest:
    """What the command was given."""

    packages: Annotated[
        tuple[str, ...],
        option(
            "--package",
            multiple=True,
            type=click.Choice([*PACKAGES]),
            help="Try only releases of this package.  [default: all]",
        ),
    ]
    releases: Annotated[
        tuple[str, ...],
        option(
            "--release",
            multiple=True,
            cls=Deciding,
            metavar="PACKAGE==VERSION",
            help="Try these releases, instead of those that are newer than the list of faults.",
        ),
    ]
    versions: Annotated[
        Path | None,
        option(
            cls=Deciding,
            type=click.Path(path_type=Path, exists=True),
            help="A file that lists the available releases, instead of the package index.",
        ),
    ]
    index: Annotated[
        str,
        option(cls=Deciding, metavar="URL", help="A further package index, such as one of nightly builds."),
    ] = ""
    only: Annotated[str, option(help="Try only faults whose names contain this text.")] = ""
    sample: Annotated[
        int, option(type=click.IntRange(min=0), help="How many cases to run on each release.")
    ] = 20
    corpus: Annotated[
        Path | None,
        option(
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            help="Take the cases from the findings of this corpus.  [default: from the known faults]",
        ),
    ]
    budget: Annotated[
        float | None, option(type=Duration(), help="The time for everything.  [default: no limit]")
    ]
    workers: Workers
    as_json: Json


@click.command("watch")
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@options(WatchRequest)
def command(out: Path, **options: Any) -> int:  # noqa: ANN401  what the decorators declare
    """Run the scripts of all known faults, and some cases, on releases that were not tried yet.

    OUT gets what was tried, flips.json, flips.sarif, feed.xml and index.html; the same command continues
    there. Exit status 1 if a release broke something; 3 if nothing broke, but time ran out or a release could
    not be tried.
    """
    from reports.watch.write import write

    began, request = time.monotonic(), WatchRequest(**options)
    watched = watch(
        Watch(
            folder=out,
            releases=_releases(request),
            faults=[fault for fault in read_faults() if request.only in fault.name],
            sample=request.sample,
            corpus=request.corpus,
            address=request.index,
            end=began + request.budget if request.budget else float("inf"),
            workers=request.workers,
            say=lambda line: click.echo(line, err=True),
        )
    )
    files = write(out, watched.flips, watched.tried, watched.problems)
    counts = {str(became): sum(flip.became is became for flip in watched.flips) for became in Became}
    if request.as_json:
        print_json(
            {"counts": counts, "problems": watched.problems, "left": watched.left, "page": str(files[-1])}
        )
    else:
        click.echo(", ".join(f"{count} {became}" for became, count in counts.items()))
        click.echo(f"page: {files[-1]}")
        if watched.left:
            click.echo("the time was over before everything was tried; the same command goes on")
    if counts[Became.BROKEN]:
        return 1
    return InfrastructureError.status if watched.left or watched.problems else 0


def _releases(request: WatchRequest) -> tuple[Release, ...]:
    """The releases to look at. Without any, a line says that the list knows the newest."""
    if request.releases:
        return tuple(map(parsed, request.releases))
    packages = tuple(PACKAGES[name] for name in request.packages or PACKAGES)
    available = in_file(request.versions) if request.versions else in_index(packages, request.index)
    releases = newer(packages, available)
    listed = ", ".join(map(str, releases)) or "none"
    click.echo(f"releases that were not tried yet: {listed}", err=True)
    return releases

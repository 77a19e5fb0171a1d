"""`difftest minimize`: the simplest case that still shows a finding, and what of it is necessary."""

from pathlib import Path

import click

from difftest.commands import Group
from difftest.jobs.ask.capacity import check_runnable
from difftest.jobs.ask.finding_path import FindingPath
from difftest.jobs.ask.options import Backends, Json, Trust, Workers, own_options
from difftest.jobs.campaign.cluster import on_cluster
from difftest.jobs.filing.reduction import Task, keep, read_task, search, size_in_words
from difftest.jobs.screen.output import print_json
from difftest.judge.fingerprint import readable
from difftest.records.corpus import Corpus
from difftest.reduce.search import BUDGET, Reduced

GROUP = Group.UNDERSTAND


@click.command("minimize")
@click.argument("target", metavar="FINDING|CASE", type=FindingPath())
@click.option(
    "--backend", type=Backends(), default=(), help="The backend that shows it.  [default: the finding's]"
)
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    default=BUDGET,
    show_default=True,
    help="The largest number of cases to run.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where to write the reduced case.  [default: reduced.json beside the case]",
)
@own_options
def command(  # noqa: PLR0913  click hands over what the decorators declare
    target: Path,
    backend: tuple[str, ...],
    budget: int,
    workers: Workers,
    out: Path | None,
    *,
    trust: Trust,
    as_json: Json,
) -> int:
    """Remove from a case what its fault does not need.

    Exit status 1 when the case does not show the fault. The search's results are kept beside the reduced case
    until it is complete: the same command continues an interrupted search.
    """
    task = read_task(target, backend, out)
    check_runnable(task.case, trust=trust)
    result = _run(task, budget, workers)
    if result is None:
        divergence = readable(task.fingerprint) or "any divergence"
        click.echo(f"case {task.case.id} does not show {divergence} on {task.backend}", err=True)
        if as_json:
            print_json({"fingerprint": task.fingerprint, "case": task.case.id, "reduced": None})
        return 1
    task, reduced = result
    keep(task, reduced)
    if as_json:
        _print_json(task, reduced)
    else:
        _print(task, reduced)
    return 0


def _run(task: Task, budget: int, workers: int | None) -> tuple[Task, Reduced] | None:
    from workers.backends import candidates

    with on_cluster(candidates((task.backend,)), workers=workers, working="minimize") as cluster:
        return search(cluster.campaign("minimize", Corpus(task.file.parent)), task, budget)


def _print_json(task: Task, reduced: Reduced) -> None:
    print_json(
        {
            "fingerprint": task.fingerprint,
            "case": task.case.id,
            "reduced": reduced.case.id,
            "file": str(task.file),
            "conditions": list(reduced.conditions),
            "evaluations": reduced.evaluations,
            "complete": reduced.complete,
        }
    )


def _print(task: Task, reduced: Reduced) -> None:
    case = reduced.case
    ended = "" if reduced.complete else "; the budget ended the search, which can be continued"
    click.echo(
        f"{readable(task.fingerprint)}: reduced to case {case.id} in {reduced.evaluations} runs{ended}"
    )
    click.echo(f"  {size_in_words(case)}")
    for condition in reduced.conditions:
        click.echo(f"  needs {condition}")
    click.echo(f"case: {task.file}")

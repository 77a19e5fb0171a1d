"""`difftest minimize`: the simplest case that still shows a finding, and what of it is necessary."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from difftest.campaign.again import AGREES, UNTOLD, rerun, shown, shows
from difftest.campaign.campaign import ORACLE, Campaign
from difftest.cases.case import Case
from difftest.commands.replay import read_target
from difftest.commands.service.options import Backends, check_ranks, json_option, print_json
from difftest.errors import UsageError
from difftest.findings.triage import steady
from difftest.records.case_files import write_case
from difftest.records.corpus import FINDING, REDUCED, Corpus
from difftest.reduce.journal import Journal
from difftest.reduce.search import BUDGET, Reduced, reduce

UNSTEADY_TRIES = 3
"""How often a case is run before it is said not to show a fault that comes and goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What to reduce: a case to what shows `fingerprint` on `backend`; empty: whatever it shows first.

    `file` is where the reduced case goes, `in_corpus` whether that is the finding's own.
    """

    case: Case
    backend: str
    fingerprint: str
    tries: int
    file: Path
    in_corpus: bool

    @property
    def journal(self) -> Path:
        """Where what was tried is kept: what one fault needs says nothing of another, and a fingerprint names its backend."""
        return self.file.with_name(f"reduction-{self.fingerprint}.jsonl")


@click.command("minimize")
@click.argument("target", metavar="FINDING|CASE", type=click.Path(path_type=Path))
@click.option("--backend", type=Backends(), help="Which shows it.  [default: the finding's]")
@click.option(
    "--budget", type=click.IntRange(min=1), default=BUDGET, show_default=True, help="The most cases to run."
)
@click.option("--workers", type=click.IntRange(min=1), help="How many run at a time.  [default: the CPUs]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where the reduced case goes.  [default: reduced.json beside the case]",
)
@json_option
def command(  # noqa: PLR0913  click hands over what the decorators declare
    target: Path,
    backend: tuple[str, ...] | None,
    budget: int,
    workers: int | None,
    out: Path | None,
    *,
    as_json: bool,
) -> int:
    """Take from a case what its fault does not need; exit status 1 when the fault does not come back.

    What was tried is kept beside the result until the search is through: called again, it goes on where it stood.
    """
    task = read_task(target, backend, out)
    check_ranks(task.case)
    found = _run(task, budget, workers)
    if found is None:
        click.echo(
            f"case {task.case.id} does not show {task.fingerprint or 'any divergence'} on {task.backend}",
            err=True,
        )
        if as_json:
            print_json({"fingerprint": task.fingerprint, "case": task.case.id, "reduced": None})
        return 1
    task, reduced = found
    keep(task, reduced)
    told: dict[str, Any] = {
        "fingerprint": task.fingerprint,
        "case": task.case.id,
        "reduced": reduced.case.id,
        "file": str(task.file),
    }
    told |= {
        "conditions": list(reduced.conditions),
        "evaluations": reduced.evaluations,
        "complete": reduced.complete,
    }
    if as_json:
        print_json(told)
    else:
        _tell(told, reduced.case)
    return 0


def read_task(target: Path, backend: tuple[str, ...] | None, out: Path | None) -> Task:
    """The task that the arguments describe.

    `UsageError` where a case is given without its backend, or several backends, and where the result would take a finding's place.
    """
    what = read_target(target)
    chosen = backend or ((what.finding.divergence.backend,) if what.finding else ())
    if len(chosen) != 1:
        msg = f"{len(chosen)} backends are given for {str(target)!r}; give one with --backend"
        raise UsageError(msg)
    folder = target if target.is_dir() else target.parent
    own = what.finding is not None and chosen == (what.finding.divergence.backend,)
    file = out or folder / REDUCED
    in_corpus = own and out is None
    if not in_corpus:
        _require_free(file)
    return Task(
        case=what.case,
        backend=chosen[0],
        fingerprint=what.finding.fingerprint if what.finding and own else "",
        tries=1 if what.finding is None or steady(what.finding) else UNSTEADY_TRIES,
        file=file,
        in_corpus=in_corpus,
    )


def _require_free(file: Path) -> None:
    """`UsageError` where `file` is kept for a finding's own reduction, which triage and reproducers go by."""
    if file.name == REDUCED and (file.parent / FINDING).exists():
        msg = f"{str(file)!r} is kept for the finding's own reduction; give another file with --out, or the finding's folder alone"
        raise UsageError(msg)


def search(campaign: Campaign, task: Task, budget: int) -> tuple[Task, Reduced] | None:
    """Reduces the task's case; None where the case does not show its fault. The task comes back with its fingerprint."""
    if not task.fingerprint:
        first = shown(rerun(campaign, task.case, task.backend))
        if first in (AGREES, UNTOLD):
            return None
        task = replace(task, fingerprint=first)
    journal = Journal(task.journal)
    reduced = reduce(
        task.case,
        shows(campaign, task.backend, task.fingerprint, task.tries),
        possible=lambda case: campaign.backends[task.backend].unsupported(case) is None,
        budget=budget,
        parallel=campaign.workers,
        journal=journal,
    )
    if reduced is None or reduced.complete:
        journal.close()
    return (task, reduced) if reduced else None


def keep(task: Task, reduced: Reduced) -> None:
    """Writes the reduced case, and with a finding what of it is necessary."""
    if task.in_corpus:
        Corpus(task.file.resolve().parent.parent).save_reduced(
            task.fingerprint, reduced.case, reduced.conditions
        )
    else:
        write_case(task.file, reduced.case)


def _run(task: Task, budget: int, workers: int | None) -> tuple[Task, Reduced] | None:
    from workers.backends import candidates
    from workers.cluster import dispatch, start

    with start.cluster(None, workers) as count:
        pool = dispatch.Pool(count)
        for name in (ORACLE, task.backend):
            pool.require(name)
        corpus = Corpus(task.file.parent)
        campaign = Campaign(
            name="minimize",
            backends=candidates((task.backend,)),
            execute=pool.execute,
            corpus=corpus,
            workers=count,
        )
        return search(campaign, task, budget)


def _tell(told: dict[str, Any], case: Case) -> None:
    ended = "" if told["complete"] else "; the budget ended it, and it can be continued"
    click.echo(f"{told['fingerprint']}: reduced to case {case.id} in {told['evaluations']} runs{ended}")
    click.echo(f"  {case.world_size} ranks ({case.layout.mesh}), {case.training.steps} steps, {case.model}")
    for condition in told["conditions"]:
        click.echo(f"  needs {condition}")
    click.echo(f"case: {told['file']}")

"""One reduction: which case to reduce to what, the search with its journal, and where the result goes."""

from dataclasses import dataclass, replace
from pathlib import Path

import click

from difftest.campaign.again import AGREES, UNDECIDED, first_fingerprint, rerun, shows
from difftest.campaign.campaign import Campaign
from difftest.cases.case import Case
from difftest.ground.counted import counted
from difftest.ground.errors import UsageError
from difftest.jobs.ask.consent import noted
from difftest.jobs.ask.targets import FindingTarget, read_target
from difftest.records.case_files import write_case
from difftest.records.corpus import FINDING, REDUCED, Corpus
from difftest.records.finding import Finding
from difftest.records.own_cases import is_own_finding, remember_finding
from difftest.reduce.journal import ReductionJournal
from difftest.reduce.search import Reduced, reduce

UNSTEADY_TRIES = 3
"""How often a case is run before it counts as not showing a fault that comes and goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What to reduce: `case`, as long as it still shows `fingerprint` on `backend`.

    An empty fingerprint stands for whatever the case shows first. `file` is where the reduced case goes,
    `in_corpus` whether that is the finding's own reduced case.
    """

    case: Case
    backend: str
    fingerprint: str
    tries: int
    file: Path
    in_corpus: bool

    @property
    def journal(self) -> Path:
        """The file of the search's results so far, one for each fingerprint.

        A fingerprint names its backend, and the results for one fault say nothing about another.
        """
        return self.file.with_name(f"reduction-{self.fingerprint}.jsonl")


def read_task(target: Path, backends: tuple[str, ...], out: Path | None) -> Task:
    """The task that the arguments describe.

    `UsageError` when a case is given without its backend, when several backends are given, and when the
    result would replace a finding's own reduced case.
    """
    subject = read_target(target)
    chosen = backends or ((subject.finding.divergence.backend,) if subject.finding else ())
    if len(chosen) != 1:
        msg = f"{len(chosen)} backends are given for {str(target)!r}; give one with --backend"
        raise UsageError(msg)
    folder = target if target.is_dir() else target.parent
    own = subject.finding is not None and chosen == (subject.finding.divergence.backend,)
    file = out or folder / REDUCED
    in_corpus = own and out is None
    if not in_corpus:
        _require_free(file)
    return Task(
        case=subject.case,
        backend=chosen[0],
        fingerprint=subject.finding.fingerprint if subject.finding and own else "",
        tries=_tries(subject.finding),
        file=file,
        in_corpus=in_corpus,
    )


def task_of(subject: FindingTarget) -> Task:
    """The task of reducing a finding's own case for its own folder."""
    finding = subject.finding
    return Task(
        case=subject.original,
        backend=finding.divergence.backend,
        fingerprint=finding.fingerprint,
        tries=_tries(finding),
        file=subject.folder / REDUCED,
        in_corpus=True,
    )


def _tries(finding: Finding | None) -> int:
    return 1 if finding is None or finding.steady else UNSTEADY_TRIES


def _require_free(file: Path) -> None:
    """`UsageError` if `file` is for a finding's own reduced case, which triage and reproducers use."""
    if file.name == REDUCED and (file.parent / FINDING).exists():
        msg = (
            f"{str(file)!r} is kept for the finding's own reduction; "
            "give another file with --out, or the finding's folder alone"
        )
        raise UsageError(msg)


def size_in_words(case: Case) -> str:
    """How small a case is: `2 ranks (tp=2), 1 step, flatten`."""
    ranks, steps = counted(case.world_size, "rank"), counted(case.training.steps, "step")
    return ", ".join((f"{ranks} ({case.layout.mesh})", steps, *case.model.titles))


def search(campaign: Campaign, task: Task, budget: int) -> tuple[Task, Reduced] | None:
    """Reduces the task's case in at most `budget` runs; returns the task with its fingerprint filled in.

    None if the case does not show its fault. The journal stays until the search is complete.
    """
    if not task.fingerprint:
        first = first_fingerprint(rerun(campaign, task.case, task.backend))
        if first in (AGREES, UNDECIDED):
            return None
        task = replace(task, fingerprint=first)
    journal = ReductionJournal(task.journal)
    if journal.damage:
        click.echo(f"difftest: damaged record: {journal.damage}", err=True)
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


def keep(task: Task, reduced: Reduced) -> Finding | None:
    """Writes the reduced case; for a finding's own, also its necessary conditions. Returns that finding."""
    if not task.in_corpus:
        write_case(task.file, reduced.case)
        return None
    corpus = Corpus(task.file.resolve().parent.parent)
    finding = corpus.save_reduced(task.fingerprint, reduced.case, reduced.conditions)
    if is_own_finding(task.fingerprint, task.case):
        noted(lambda: remember_finding(task.fingerprint, reduced.case))
    return finding

"""`difftest reproducer`: a script that shows a finding, run in a fresh process before it is kept."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from difftest.campaign.campaign import ORACLE
from difftest.campaign.case_run import IN_DOUBT
from difftest.cases.case import Case
from difftest.cases.exactness import inexact
from difftest.commands.replay import read_target
from difftest.commands.service.graphs import replay
from difftest.commands.service.options import check_ranks, json_option, print_json
from difftest.commands.service.scripts import Tried, keep_graphs, run_script
from difftest.errors import UsageError
from difftest.judge.comparator import divergences_in_order
from difftest.judge.divergence import Divergence
from difftest.judge.measured import measure_run
from difftest.judge.outcome import Failure, Symptom
from difftest.records.corpus import SAID, SCRIPT, Corpus
from difftest.records.disk import replace_file
from difftest.records.finding import Finding

if TYPE_CHECKING:
    from reports.reproducer.script import Fault

ARTIFACTS = "artifacts"
NO_NUMBERS = ("annotation", "determinism", "recompile", "runtime_init")
"""The checks whose findings no script spells out: they compare runs, or look at what a run did beside its numbers."""


@click.command("reproducer")
@click.argument("target", metavar="FINDING", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where the script goes.  [default: reproducer.py in the finding's folder]",
)
@click.option(
    "--artifacts/--no-artifacts",
    default=True,
    help="Keep what XLA compiled, in the folder artifacts.  [default: keep]",
)
@click.option(
    "--jax-python",
    type=click.Path(path_type=Path, exists=True),
    help="A Python whose jaxlib compiles the graph of a crash again.",
)
@json_option
def command(
    target: Path, out: Path | None, jax_python: Path | None, *, artifacts: bool, as_json: bool
) -> int:
    """Write one self-contained script that shows a finding; exit status 1, and no script, when none does."""
    finding, case, folder = read_finding(target)
    check_ranks(case)
    tried = None
    reason = _reason(finding, case)
    if reason is None:
        reason, tried = reproduce(finding, case)
    file = out or folder / SCRIPT
    kept: tuple[str, ...] = ()
    if reason is None and tried:
        put(file, tried.text)
        put(file.with_name(SAID), tried.said)
        kept = (
            keep_graphs(tried.text, folder / ARTIFACTS)
            if artifacts and finding.divergence.side == "xla"
            else ()
        )
    elif out is None:
        for stale in (SCRIPT, SAID):
            (folder / stale).unlink(missing_ok=True)
    told: dict[str, Any] = {
        "fingerprint": finding.fingerprint,
        "case": case.id,
        "file": None if reason else str(file),
        "reason": reason,
    }
    told |= {"replayed": replayed(finding, case, folder, jax_python) if kept and jax_python else None}
    told |= {
        "lines": tried.text.count("\n") if tried else None,
        "said": tried.said if tried else None,
        "artifacts": list(kept),
    }
    if as_json:
        print_json(told)
    else:
        _tell(told)
    return int(reason is not None)


def replayed(finding: Finding, case: Case, folder: Path, python: Path) -> str:
    """What another XLA makes of the graph that this one died of; kept as evidence where it tells."""
    if finding.divergence.symptom is not Symptom.CRASH:
        return "no telling: only crashes of the compiler are replayed; wrong numbers would need the graph's inputs"
    from reports.draft.draft import REPLAYED
    from reports.reproducer.reproducer import needle

    message = finding.divergence.detail.partition(": ")[2].partition(": ")[2]
    said = replay(python, folder / ARTIFACTS, case.world_size, needle(message))
    if not said.startswith("no telling"):
        Corpus(folder.parent).amend(folder.name, evidence={**finding.evidence, REPLAYED: said})
    return said


def _tell(told: dict[str, Any]) -> None:
    said, name = told["said"] or "", told["fingerprint"]
    if told["reason"]:
        click.echo(f"{said}{name}: no reproducer: {told['reason']}", err=True)
        return
    click.echo(f"{said}{name}: shown by {told['file']}, {told['lines']} lines")
    if told["artifacts"]:
        click.echo(f"artifacts: {', '.join(told['artifacts'])}")
    if told["replayed"]:
        click.echo(f"replayed: {told['replayed']}")


def put(file: Path, text: str) -> None:
    """Writes a file whole; `UsageError` where it cannot be written."""
    try:
        replace_file(file, text.encode())
    except OSError as error:
        msg = f"cannot write {str(file)!r}: {error.strerror}; give a file in a folder that can be written"
        raise UsageError(msg) from error


def read_finding(target: Path) -> tuple[Finding, Case, Path]:
    """A finding with its simplest case and its folder; `UsageError` for anything else."""
    what = read_target(target)
    if what.finding is None:
        msg = f"{str(target)!r} is a case; give a finding's folder, such as runs/first/corpus/FINGERPRINT"
        raise UsageError(msg)
    folder = (target if target.is_dir() else target.parent).resolve()
    return what.finding, Corpus(folder.parent).simplest(folder.name), folder


def reproduce(finding: Finding, case: Case) -> tuple[str | None, Tried | None]:
    """Why there is no reproducer, or None; and the script that showed the fault, or else the last that did not."""
    shown = seen_now(finding, case)
    if isinstance(shown, str):
        return shown, None
    tried = None
    for text in scripts(finding, case, shown):
        tried = run_script(text)
        if tried.shown:
            return None, tried
    return "the script does not show the fault", tried


def _unspelled(check: str) -> str:
    return f"no script spells out the check {check!r}: it looks at more than a run's numbers"


def _reason(finding: Finding, case: Case) -> str | None:
    """Why there is no script, where that can be said before anything is run."""
    from reports.reproducer import reproducer

    if finding.divergence.check in NO_NUMBERS:
        return _unspelled(finding.divergence.check)
    return reproducer.refusal(case, finding.divergence.backend)


def seen_now(finding: Finding, case: Case) -> "Fault | str":
    """What a script must show, from one more run of the case; or why there is nothing to show."""
    from reports.reproducer import reproducer
    from workers.isolate import sandbox

    truth = sandbox.run(case, ORACLE, options=IN_DOUBT if finding.divergence.ratio is not None else {})
    outcome = sandbox.run(case, finding.divergence.backend)
    if isinstance(truth, Failure):
        return f"the oracle failed: {truth.kind}: {truth.message}"
    exact = inexact(case) is None
    run = measure_run(case, finding.divergence.backend, finding.divergence.side, truth, outcome, exact=exact)
    found = divergences_in_order(run)
    first = next((d for d in found if d.fingerprint == finding.fingerprint), None)
    if first is None:
        return f"case {case.id} does not show it now, but {_named(found)}"
    measurement = run.measured.get((first.step, first.stage, first.tensor))
    return reproducer.fault(first, outcome, measurement) or _unspelled(first.check)


def _named(found: tuple[Divergence, ...]) -> str:
    return found[0].fingerprint if found else "agrees with the oracle"


def scripts(finding: Finding, case: Case, shown: "Fault") -> Iterator[str]:
    """The scripts to try, shortest first: few faults need the case's own numbers."""
    from reports.reproducer import reproducer, spelling
    from workers.training import tp_plan

    title = f"{finding.divergence.backend}, {spelling.brief(finding.divergence.detail)}"
    plan = (
        tp_plan.plan(case) if case.layout.mesh.names[-1] == tp_plan.AXIS and not tp_plan.refusal(case) else {}
    )
    if reproducer.any_numbers(case, shown, finding.divergence.ratio):
        yield reproducer.render(case, finding.divergence.backend, shown, title, plan, plain=True)
    yield reproducer.render(case, finding.divergence.backend, shown, title, plan)

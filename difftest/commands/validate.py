"""`difftest validate`: whether a fix of a fault holds, goes far enough, and breaks nothing else."""

import time
from dataclasses import dataclass
from typing import Annotated, Any

import click

from difftest.commands import Group
from difftest.ground.errors import InfrastructureError
from difftest.jobs.ask.capacity import check_runnable
from difftest.jobs.ask.options import Deciding, Duration, Json, Trust, Workers, option, options
from difftest.jobs.fixes.fault_cases import read
from difftest.jobs.fixes.replacement import ALLOWED, HERE, environment
from difftest.jobs.fixes.trial import FixTrial, tried
from difftest.jobs.fixes.verdict import CasePair, Fix, Outcome, Validated
from difftest.jobs.screen.output import print_json

GROUP = Group.UNDERSTAND

NOT_GOOD = {Fix.NOT_FIXED, Fix.PARTLY, Fix.OVERFITTED}


@dataclass(frozen=True, kw_only=True)
class ValidateRequest:
    """What the command was given."""

    fixed: Annotated[
        str, option("--with", cls=Deciding, required=True, metavar="FIX", help=f"The fix: {ALLOWED}.")
    ]
    before: Annotated[
        str,
        option(cls=Deciding, metavar="ENVIRONMENT", help="Where the fault is: an environment or a release."),
    ] = HERE
    neighbours: Annotated[
        int, option(type=click.IntRange(min=0), help="The most cases near the fault's own.")
    ] = 12
    others: Annotated[int, option(type=click.IntRange(min=0), help="The most cases of other faults.")] = 6
    budget: Annotated[
        float | None, option(type=Duration(), help="The time for everything.  [default: no limit]")
    ]
    workers: Workers
    trust: Trust
    as_json: Json


@click.command("validate")
@click.argument("targets", nargs=-1, required=True, metavar="FAULT|FINDING...")
@options(ValidateRequest)
def command(targets: tuple[str, ...], **options: Any) -> int:  # noqa: ANN401  what the decorators declare
    """Check a fix: run a fault's case, cases near it and cases of other faults without the fix and with it.

    FAULT is the name of a known fault (`difftest/findings/known`). Exit status 1 if a fix does not hold,
    holds for only some of the cases, or breaks something else; 3 if the runs give no answer.
    """
    began, request = time.monotonic(), ValidateRequest(**options)
    subjects = tuple(map(read, targets))
    for case in (case for subject in subjects for case, _ in subject.cases):
        check_runnable(case, trust=request.trust)
    before = environment(request.before, "", _say)
    after = environment(request.fixed, before, _say)
    trial = FixTrial(
        subjects=subjects,
        before=before,
        after=after,
        neighbours=request.neighbours,
        others=request.others,
        end=began + request.budget if request.budget else float("inf"),
        workers=request.workers,
        say=_say,
    )
    results = list[tuple[str, Validated]]()
    for name, result in tried(trial):
        results.append((name, result))
        if not request.as_json:
            _print(name, result)
    if request.as_json:
        print_json({"faults": [_described(name, result) for name, result in results]})
    if any(result.fix in NOT_GOOD or result.broken for _, result in results):
        return 1
    undecided = any(result.fix is Fix.UNDECIDED for _, result in results)
    return InfrastructureError.status if undecided else 0


def _say(line: str) -> None:
    click.echo(line, err=True)


def _described(name: str, result: Validated) -> dict[str, Any]:
    return {
        "fault": name,
        "verdict": str(result.fix),
        "broken": [pair.case for pair in result.broken],
        "cases": [
            {
                "role": str(pair.role),
                "what": pair.words,
                "case": pair.case,
                "outcome": str(pair.outcome),
                "before": pair.before.shown or pair.before.state,
                "after": pair.after.shown or pair.after.state,
                "note": pair.after.note or pair.before.note,
            }
            for pair in result.pairs
        ],
    }


def _print(name: str, result: Validated) -> None:
    showed = [pair for pair in result.pairs if pair.was]
    gone = sum(pair.outcome is Outcome.GONE for pair in showed)
    broken = f"; {len(result.broken)} that were right are wrong" if result.broken else ""
    click.echo(f"{name}: {result.fix}. Of {len(showed)} cases that showed it, {gone} agree now{broken}.")
    undecided = list[CasePair]()
    for pair in result.pairs:
        beside = pair.outcome is Outcome.BESIDE and pair.after.state == "fixed"
        if pair.outcome is Outcome.UNDECIDED and not pair.was:
            undecided.append(pair)
        elif not beside and pair.outcome not in {Outcome.GONE, Outcome.AS_BEFORE}:
            click.echo(f"  {pair.outcome}: {pair.words}{_details(pair)}")
    if undecided:
        click.echo(f"  {len(undecided)} undecided, such as {undecided[0].words}{_details(undecided[0])}")


def _details(pair: CasePair) -> str:
    shown = f"{pair.after.shown} {pair.fault_after}".strip()
    words = shown or pair.after.note or pair.before.note
    return f": {words}" if words else ""

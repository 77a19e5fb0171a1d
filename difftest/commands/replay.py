"""`difftest replay`: one case again, in fresh processes.

Running it many times and under load hunts a race; the rate of every outcome is printed.
"""

from pathlib import Path
from typing import Any

import click

from difftest.commands import Group
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.ask.capacity import check_runnable
from difftest.jobs.ask.finding_path import FindingPath
from difftest.jobs.ask.options import Backends, Json, Load, Trust, own_options
from difftest.jobs.ask.targets import read_target
from difftest.jobs.campaign.cpu_load import busy
from difftest.jobs.campaign.repeats import rates, repeats
from difftest.jobs.screen.activity import Working
from difftest.jobs.screen.output import print_json
from difftest.records.comparisons import COMPLETED

GROUP = Group.UNDERSTAND


@click.command("replay")
@click.argument("target", metavar="CASE_OR_FINDING", type=FindingPath())
@click.option(
    "--backends", type=Backends(), default=(), help="Use only these.  [default: the finding's, or all]"
)
@click.option(
    "--times", type=click.IntRange(min=1), default=1, show_default=True, help="How often to run the case."
)
@own_options
def command(  # noqa: PLR0913  click hands over what the decorators declare
    target: Path, backends: tuple[str, ...], times: int, load: Load, *, trust: Trust, as_json: Json
) -> int:
    """Run a case file, or the case of a finding's folder, again.

    Exit status 1 when it diverges, 3 when no run could be compared. With --times, the rate of every outcome
    is printed. --load makes races more likely.
    """
    subject = read_target(target)
    check_runnable(subject.case, trust=trust)
    results = list[dict[str, Any]]()
    with busy(load), Working("replay") as working:
        for result in repeats(subject, backends, times, load):
            results.append(result)
            working.step()
    fingerprint = subject.finding.fingerprint if subject.finding else None
    summary: dict[str, Any] = {
        "case": subject.case.id,
        "fingerprint": fingerprint,
        "times": times,
        "load": load,
        "results": results,
        "rates": rates(results),
        "reproduced": sum(fingerprint in r["fingerprints"] for r in results) if fingerprint else None,
    }
    if as_json:
        print_json(summary)
    else:
        _print(summary)
    _require_compared(results)
    return int(any(r["verdict"] == "diverge" for r in results))


def _require_compared(results: list[dict[str, Any]]) -> None:
    """`InfrastructureError` when no run decides anything, `UsageError` when no backend supports the case."""
    doubts = [r for r in results if r["verdict"] == "inconclusive"]
    if any(r["verdict"] in COMPLETED for r in results):
        return
    if doubts:
        msg = f"nothing was compared: {doubts[0]['backend']} is inconclusive: {doubts[0]['reason']}"
        raise InfrastructureError(msg)
    refusals = "; ".join(f"{r['backend']}: {r['reason']}" for r in results)
    msg = f"nothing was compared, as no backend supports the case: {refusals}"
    raise UsageError(msg)


def _print(summary: dict[str, Any]) -> None:
    for result in summary["results"]:
        shown = f"{result['verdict']}  {' '.join(result['fingerprints'])}  {result['reason']}"
        click.echo(f"{result['backend']}: {shown}".rstrip())
    if summary["times"] > 1:
        for backend, counted in summary["rates"].items():
            for outcome, count in counted.items():
                click.echo(f"{backend}: {outcome} {count} of {summary['times']}")
    if summary["fingerprint"]:
        click.echo(f"{summary['fingerprint']}: reproduced {summary['reproduced']} of {summary['times']}")

"""`difftest nightly`: earlier findings again, new cases, triage of the new findings, and reports.

A scheduler starts it once a day. The seed is the date, so that anybody can run a night's cases again, and no
two nights run the same ones. The same night started twice continues.
"""

import time
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any

import click

from difftest.commands import Group
from difftest.findings.ledger import read_ledger
from difftest.ground import plugins
from difftest.ground.clock import utc_today
from difftest.ground.errors import StoppedError
from difftest.jobs.ask.case_source import Programs
from difftest.jobs.ask.options import Deciding, Duration, Out, option, options, paths_option
from difftest.jobs.ask.own_model import take_model
from difftest.jobs.ask.request import TWICE_EVERY, CampaignRequest
from difftest.jobs.campaign.conclusion import conclude
from difftest.jobs.campaign.generated_cases import campaign_on_cluster, define
from difftest.jobs.campaign.night_before import night_before
from difftest.jobs.campaign.progress import announce
from difftest.jobs.campaign.storage import Output, opened
from difftest.jobs.night.night import Night, run_night
from difftest.records import announced, resume

BUDGET_SECONDS = 3600.0

PROGRAMS = 200
"""Before every 20 other cases; programs showed most of the causes of docs/faults.md."""


@dataclass(frozen=True, kw_only=True)
class NightlyRequest(CampaignRequest):
    """A night; the seed is its date."""

    out: Annotated[
        Path | str,
        option(type=Out(), help="The folder, or object storage, of the corpus and the reports."),
    ] = Path("runs/nightly")
    cases: Annotated[
        int | None,
        option(
            type=click.IntRange(min=1),
            help="The largest number of new cases.  [default: limited by --budget only]",
        ),
    ] = None
    budget: Annotated[
        float | None,
        option(
            type=Duration(),
            show_default=False,
            help="The time for everything: earlier findings, new cases, triage and drafts.  [default: 1h]",
        ),
    ] = BUDGET_SECONDS
    paths: Annotated[tuple[str, ...], paths_option("all")] = ()
    programs: Programs = PROGRAMS
    known_cases: Annotated[
        bool | None,
        option(
            "--known-cases/--no-known-cases",
            help="Begin with a case of each known fault.  [default: on the first night of --out]",
        ),
    ] = None
    twice_every: int = TWICE_EVERY
    formats: tuple[str, ...] = ("junit",)


GROUP = Group.FIND


@click.command("nightly")
@click.option(
    "--date",
    "day",
    cls=Deciding,
    type=click.DateTime(["%Y-%m-%d"]),
    help="The date that the seed is made from.  [default: today, UTC]",
)
@options(NightlyRequest, without={"seed", "fresh"})
def command(day: datetime | None, **options: Any) -> int:  # noqa: ANN401  see decorators
    """Run earlier findings again, run new cases until the budget is spent, triage what is new, and report."""
    began, seed = time.monotonic(), seed_of(day or utc_today())
    options["model"] = take_model(options)
    if not options["model"] and not options["paths"]:
        options["paths"] = plugins.names("generators.paths")
    request = NightlyRequest(began=began, seed=seed, **options)
    announce(request)
    with opened(request.out) as output:
        return _run(request, output)


def seed_of(day: date) -> int:
    """The seed of a night: 20261121 for 21 November 2026."""
    return int(f"{day:%Y%m%d}")


def _run(request: CampaignRequest, output: Output) -> int:
    corpus, ledger = output.prepared_corpus(), read_ledger(request.ledger)
    if request.known_cases is None:
        request = replace(request, known_cases=not (request.model or night_before(corpus, request.seed)))
    click.echo(f"seed {request.seed}", err=request.as_json)
    definition = define(request)
    with resume.resumed(corpus, definition.name) as recorded:
        definition.keep(corpus)
        announced.expire(corpus, utc_today())
        night = Night()
        try:
            with campaign_on_cluster(request, corpus, ledger) as campaign:
                night = run_night(campaign, ledger, request, recorded)
        except StoppedError as stop:  # before the first run
            night.tally.stopped = stop
        night.tally.count_as_new(announced.new_findings(corpus, definition.name))
        if not request.as_json:
            click.echo(night.summary())
        return conclude(request, output, night.tally, night.entries())

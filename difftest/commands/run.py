"""`difftest run`: a campaign from generated cases to reports.

The same command continues a campaign, or finds that it is complete.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import click

from difftest.campaign.campaign import Campaign
from difftest.clock import utc_today
from difftest.commands import Group
from difftest.commands.service.conclusion import conclude
from difftest.commands.service.drawing import PROGRAMS
from difftest.commands.service.generated_cases import (
    campaign_on_cluster,
    define,
    is_complete,
    recorded_tally,
    run_cases,
)
from difftest.commands.service.options import (
    USUAL_PATHS,
    Duration,
    address_option,
    backends_option,
    fail_on_option,
    inputs_option,
    json_option,
    least_compared_option,
    ledger_option,
    max_world_size_option,
    most_inconclusive_option,
    own_model_options,
    paths_option,
    programs_option,
    seed_option,
    workers_option,
)
from difftest.commands.service.own_model import take_model
from difftest.commands.service.progress import announce
from difftest.commands.service.request import CASES, TWICE_EVERY, CampaignRequest
from difftest.commands.service.storage import Out, Output, opened
from difftest.errors import StoppedError
from difftest.findings.ledger import Ledger, read_ledger
from difftest.records import announced, resume
from difftest.records.corpus import Corpus

Joined: TypeAlias = Callable[[CampaignRequest, Corpus, Ledger], AbstractContextManager[Campaign]]
"""Gives a campaign on a cluster."""


GROUP = Group.FIND


@click.command("run")
@seed_option
@click.option(
    "--cases",
    type=click.IntRange(min=1),
    help=f"How many cases to run.  [default: {CASES}, or with --budget no limit]",
)
@click.option(
    "--budget",
    type=Duration(),
    help="End after this time, such as 10m: cases, evidence and all; the same command continues.",
)
@own_model_options
@paths_option(USUAL_PATHS)
@backends_option
@max_world_size_option
@programs_option(PROGRAMS)
@inputs_option
@workers_option
@address_option
@click.option(
    "--out",
    type=Out(),
    default=Path("runs/latest"),
    show_default=True,
    help="The folder or address of corpus and reports.",
)
@click.option(
    "--twice-every",
    type=click.IntRange(min=0),
    default=TWICE_EVERY,
    show_default=True,
    help="Run every Nth case twice to detect nondeterminism; 0 disables.",
)
@ledger_option
@click.option(
    "--fresh",
    is_flag=True,
    help="Run every case again, even if --out has runs of this campaign; those are set aside.",
)
@fail_on_option
@least_compared_option
@most_inconclusive_option
@json_option
def command(**options: Any) -> int:  # noqa: ANN401  click hands over what the decorators declare
    """Generate cases, run them on both sides, compare them, and report what diverges.

    With --model they are cases of your own model, whose source says how it is built and fed
    (docs/own-model.md).

    Cases that --out already has from the same campaign are not run again. A campaign is the same if seed,
    paths, backends, world size, --twice-every and versions are.
    """
    began = time.monotonic()
    options["model"] = take_model(options)
    request = CampaignRequest(began=began, **options)
    announce(request)
    with opened(request.out) as output:
        return run_campaign(request, output)


def run_campaign(request: CampaignRequest, output: Output, joined: Joined | None = None) -> int:
    """Runs the requested campaign, or continues it, and returns the exit status.

    `joined` gives the campaign on a cluster that has been joined already; by default one is joined.
    """
    from workers.backends import candidates

    corpus, ledger = output.prepared_corpus(), read_ledger(request.ledger)
    definition = define(request)
    with resume.resumed(corpus, definition.name, fresh=request.fresh) as recorded:
        definition.keep(corpus)
        announced.expire(corpus, utc_today())
        earlier = partial(
            recorded_tally, definition.name, candidates(request.backends), corpus, recorded, ledger
        )
        if is_complete(request, recorded, corpus):
            click.echo(f"campaign {definition.name}: every case is recorded already", err=True)
            tally = earlier()
        else:
            try:
                with (joined or campaign_on_cluster)(request, corpus, ledger) as campaign:
                    tally = run_cases(campaign, request, recorded, ledger)
            except StoppedError as stop:  # before the first run
                tally = earlier()
                tally.stopped = stop
        tally.count_as_new(announced.new_findings(corpus, definition.name))
        return conclude(request, output, tally)

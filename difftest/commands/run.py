"""`difftest run`: a campaign from generated cases to reports.

The same command continues a campaign, or finds that it is complete.
"""

import time
from pathlib import Path
from typing import Any

import click

from difftest.commands import Group
from difftest.jobs.ask.case_source import PROGRAMS
from difftest.jobs.ask.options import (
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
from difftest.jobs.ask.own_model import take_model
from difftest.jobs.ask.request import CASES, TWICE_EVERY, CampaignRequest
from difftest.jobs.campaign.progress import announce
from difftest.jobs.campaign.run import run_campaign
from difftest.jobs.campaign.storage import Out, opened

GROUP = Group.FIND

NAMED_SECONDS = 150.0
"""How long a campaign of a model by name takes that is given neither a number of cases nor a budget."""


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
    options["model"] = model = take_model(options)
    if model and model.layer.recipe and not (options["cases"] or options["budget"]):
        options["budget"] = NAMED_SECONDS
        click.echo(
            f"ends after {NAMED_SECONDS:g} s (--cases, --budget); the same command continues", err=True
        )
    request = CampaignRequest(began=began, **options)
    announce(request)
    with opened(request.out) as output:
        return run_campaign(request, output)

"""`difftest run`: a campaign from generated cases to reports.

The same command continues a campaign, or finds that it is complete.
"""

import time
from typing import Any

import click

from difftest.commands import Group
from difftest.jobs.ask.options import options
from difftest.jobs.ask.own_model import take_model
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.progress import announce
from difftest.jobs.campaign.run import run_campaign
from difftest.jobs.campaign.storage import opened

GROUP = Group.FIND

NAMED_SECONDS = 150.0
"""How long a campaign of a model by name takes that is given neither a number of cases nor a budget."""


@click.command("run")
@options(CampaignRequest)
def command(**options: Any) -> int:  # noqa: ANN401  click hands over what the request declares
    """Generate cases, run them on both sides, compare them, and report what diverges.

    With --model the cases train your own model (docs/own-model.md).

    Cases that --out already has from the same campaign are not run again. It is the same campaign if seed,
    paths, backends, world size, --twice-every and versions match.
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

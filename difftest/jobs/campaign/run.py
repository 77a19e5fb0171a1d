"""The whole campaign of `difftest run`: from the request to the exit status."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeAlias

import click

from difftest.campaign.campaign import Campaign
from difftest.findings.ledger import Ledger, read_ledger
from difftest.ground.clock import utc_today
from difftest.ground.errors import StoppedError
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.conclusion import conclude
from difftest.jobs.campaign.generated_cases import (
    campaign_on_cluster,
    define,
    is_complete,
    recorded_tally,
    run_cases,
)
from difftest.jobs.campaign.storage import Output
from difftest.records import announced, resume
from difftest.records.corpus import Corpus

Joined: TypeAlias = Callable[[CampaignRequest, Corpus, Ledger], AbstractContextManager[Campaign]]
"""Gives a campaign on a cluster."""


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

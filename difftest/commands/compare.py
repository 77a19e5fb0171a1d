"""`difftest compare`: bundles of machines that never met, joined and compared as if one campaign had run them."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from difftest.campaign.campaign import ORACLE, Campaign
from difftest.campaign.run import run as run_campaign
from difftest.commands.run import FAIL_ON, Tally, conclude, known_upstream
from difftest.commands.service.options import json_option
from difftest.commands.service.storage import Out, placed
from difftest.findings.ledger import LEDGER_FILE, read_ledger
from difftest.records.bundle import Joined
from difftest.records.corpus import Corpus
from difftest.records.definition import DIGEST_LENGTH
from difftest.records.resume import resumed

MOST_NAME = 60
"""Characters of the folders' names in the campaign's, which names files."""


@click.command("compare")
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=Out(), required=True, help="Where corpus and reports go.")
@click.option(
    "--known",
    "ledger",
    type=click.Path(path_type=Path),
    default=LEDGER_FILE,
    help="The ledger.  [default: the project's]",
)
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default="new",
    show_default=True,
    help="What makes the exit status 1.",
)
@json_option
def command(**options: Any) -> int:  # noqa: ANN401  click hands over what the decorators declare
    """Compare recorded runs with the oracle and with one another, and report what diverges; nothing is run."""
    with placed(options["out"]) as out:
        return _command({**options, "seed": None, "told": options["out"], "out": out})


def _command(options: Mapping[str, Any]) -> int:
    ledger, joined = read_ledger(options["ledger"]), Joined(options["bundles"], ORACLE)
    corpus = Corpus(options["out"] / "corpus")
    corpus.prepare()
    corpus.require_readable()
    name = _name(options["bundles"])
    campaign = Campaign(name=name, backends=joined.backends, execute=joined.execute, corpus=corpus)
    tally, began = Tally(), time.monotonic()
    with resumed(
        corpus, name, fresh=True
    ) as recorded:  # the same bundles compared again are the same campaign, and no more runs
        for progress in run_campaign(campaign, joined.cases, recorded):
            tally.count(progress)
    tally.seconds = time.monotonic() - began
    return conclude(options, tally, known_upstream(corpus, ledger, tally))


def _name(bundles: Sequence[Path]) -> str:
    """The campaign's name: one for the same folders, whatever their order, and another for others that are called alike."""
    folders = sorted(str(bundle.resolve()) for bundle in bundles)
    called = "-".join(Path(folder).name for folder in folders)[:MOST_NAME]
    return f"compare-{called}-{hashlib.sha256(chr(0).join(folders).encode()).hexdigest()[:DIGEST_LENGTH]}"

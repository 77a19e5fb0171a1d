"""`difftest compare`: bundles from machines that never met, compared as if one campaign had run them.

Or two trainings of the user's own, which `difftest.record` has recorded.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import click

from difftest.campaign.campaign import ORACLE, Campaign
from difftest.campaign.run import run
from difftest.commands import Group
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.ground.errors import UsageError
from difftest.jobs.ask.options import Deciding, Out, option, options
from difftest.jobs.ask.request import Request
from difftest.jobs.campaign.conclusion import conclude
from difftest.jobs.campaign.run_pairs import are_runs, compare_runs
from difftest.jobs.campaign.storage import Output, opened
from difftest.jobs.campaign.tally import Tally
from difftest.jobs.screen.activity import Working
from difftest.records import announced
from difftest.records.bundle import Joined
from difftest.records.bundle_archive import unpacked
from difftest.records.comparisons import Comparisons
from difftest.records.definition import DIGEST_LENGTH
from difftest.records.resume import resumed

SIDES = ("torch", "xla")
"""The sides that are compared where bundles say nothing else."""

MOST_NAME = 60
"""Characters of the folders' names in the campaign's name, which is part of file names."""


@dataclass(frozen=True, kw_only=True)
class CompareRequest(Request):
    """What the command was given."""

    bundles: tuple[Path, ...]
    out: Annotated[
        Path | str,
        option(
            type=Out(),
            help="The folder, or object storage, of corpus and reports; for recorded runs, of the page.",
        ),
    ]
    one_side: Annotated[
        bool,
        option(is_flag=True, help="Accept runs of one side, such as torch: compare with the oracle only."),
    ] = False


GROUP = Group.FIND


@click.command("compare")
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--noise",
    type=click.Path(path_type=Path),
    multiple=True,
    help="For recorded runs: a repetition of one with difftest.record(..., perturb=1). May be repeated.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="FIRST=SECOND",
    help="For recorded runs: a module's name in the first and in the second. May be repeated.",
)
@click.option(
    "--by",
    type=click.Choice(["release"]),
    help="For recorded runs: find the package release that makes them differ, by running --script.",
)
@click.option(
    "--script",
    cls=Deciding,
    metavar="ARGUMENTS",
    help="With --by release: what Python runs, such as 'train.py --steps 3'.",
)
@options(CompareRequest)
def command(**options: Any) -> int:  # noqa: ANN401  click hands over what the decorators declare
    """Compare recorded runs with the oracle and with one another, and report what diverges.

    Nothing is run. Of two trainings that difftest.record recorded it prints where they diverge, and whether
    that is rounding.
    """
    noise, names, by, script = (options.pop(name) for name in ("noise", "names", "by", "script"))
    if bool(by) != bool(script):
        msg = "--by release needs --script with what Python runs, and --script needs --by release"
        raise UsageError(msg)
    if are_runs(options["bundles"]):
        search = partial(_by_release, tuple(options["bundles"]), script, noise) if by else None
        return compare_runs(
            options["bundles"], options["out"], noise, names, as_json=options["as_json"], search=search
        )
    if options["out"] is None or noise or names or by:
        msg = "bundles need --out, and take none of --noise, --name and --by"
        raise UsageError(msg)
    request = CompareRequest(**options)
    with opened(request.out) as output, unpacked(request.bundles) as folders:
        return _compare(request, output, Joined(folders, ORACLE))


def _by_release(
    runs: tuple[Path, Path], script: str, noise: tuple[Path, ...], names: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """The package that parts two runs, for JSON and in lines."""
    from difftest.jobs.filing.releases import ByRelease, described, lines

    with Working("compare: releases"):
        result, changed = ByRelease(runs=runs, script=script, noise=noise, names=names).search()
    return {"release": described(result, changed)}, list(lines(result, changed))


def _compare(request: CompareRequest, output: Output, joined: Joined) -> int:
    ledger = read_ledger(request.ledger)
    corpus = output.prepared_corpus()
    # The campaign's name, which depends on the folders' full paths and not on their order
    folders = sorted(str(bundle.resolve()) for bundle in request.bundles)
    names = "-".join(Path(folder).name for folder in folders)[:MOST_NAME]
    name = f"compare-{names}-{hashlib.sha256(chr(0).join(folders).encode()).hexdigest()[:DIGEST_LENGTH]}"
    campaign = Campaign(
        name=name, backends=joined.backends, execute=joined.execute, corpus=corpus, foreign=True
    )
    tally, began = Tally(campaign=name, ledger=ledger), time.monotonic()
    # The same bundles compared again are the same campaign and must not count as more runs, hence fresh.
    with resumed(corpus, name, fresh=True) as recorded, Working("compare") as working:
        announced.expire(corpus, utc_today())
        tally.comparisons = recorded.comparisons
        if not request.one_side:
            _expect_sides(joined, recorded.comparisons)
        for progress in run(campaign, joined.cases, recorded):
            tally.count(progress)
            working.step()
        tally.count_as_new(announced.new_findings(corpus, name))
    tally.seconds = time.monotonic() - began
    return conclude(request, output, tally)


def _expect_sides(joined: Joined, comparisons: Comparisons) -> None:
    """Makes both sides ones that are counted, where the bundles have runs of less than two."""
    if len({backend.SIDE for backend in joined.backends.values()}) < len(SIDES):
        for side in SIDES:
            comparisons.expect(side, "")

"""`difftest nightly`: the findings again, then new cases while there is time, then what is new again; reports for a scheduler.

The seed is the date: what one night found, anybody can run again, and no two nights run the same cases. The same night started twice goes
on where it was.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from difftest.campaign.campaign import ORACLE, Campaign
from difftest.commands.run import (
    FAIL_ON,
    TWICE_EVERY,
    Tally,
    conclude,
    definition,
    known_upstream,
    prepared,
    run_cases,
)
from difftest.commands.service.options import Backends, Duration, Names, json_option
from difftest.commands.service.ranks import check_world_size, most_ranks
from difftest.commands.service.storage import Out, placed
from difftest.findings.ledger import LEDGER_FILE, Ledger, guarded, read_ledger, utc_today
from difftest.findings.triage import Status, Triaged, triage
from difftest.records import resume
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding
from difftest.records.resume import Recorded

BUDGET_SECONDS = 3600.0
REPLAYED_SHARE = 0.5
"""The most of the budget that the findings of earlier nights may take: those not reached are the first of the next night."""

REPLAYS = 1
"""How often an old finding is run again; a new one as often as `difftest triage` does."""


@click.command("nightly")
@click.option(
    "--out",
    type=Out(),
    default=Path("runs/nightly"),
    show_default=True,
    help="Where corpus and reports stay.",
)
@click.option(
    "--budget",
    type=Duration(),
    default=BUDGET_SECONDS,
    show_default="1h",
    help="For replays and new cases together.",
)
@click.option(
    "--cases",
    type=click.IntRange(min=1),
    help="At most so many new cases.  [default: as many as --budget allows]",
)
@click.option(
    "--date",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The date that the seed is made of.  [default: today, UTC]",
)
@click.option("--paths", type=Names("generators.paths"), help="Only these parallelism paths.  [default: all]")
@click.option("--backends", type=Backends(), help="Only these backends.  [default: all]")
@click.option(
    "--max-world-size", type=int, default=8, show_default=True, help="The most ranks a case may have."
)
@click.option(
    "--workers", type=click.IntRange(min=1), help="How many cases run at a time.  [default: the CPUs]"
)
@click.option("--address", help="A Ray cluster to join.  [default: one of its own on this machine]")
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
    """Replay the corpus, run new cases for the budget, triage what is new, and report."""
    check_world_size(options["max_world_size"])
    seed = seed_of(options["date"] or datetime.now(UTC))
    with placed(options["out"]) as out:
        return _command(
            {**options, "told": options["out"], "out": out, "seed": seed, "twice_every": TWICE_EVERY}
        )


def _command(options: Mapping[str, Any]) -> int:
    corpus, ledger = prepared(options["out"]), read_ledger(options["ledger"])
    click.echo(f"seed {options['seed']}", err=options["as_json"])
    defined = definition(options)
    with resume.resumed(corpus, defined.name) as recorded:
        defined.keep(corpus)
        night = _on_a_cluster(corpus, ledger, options, recorded)
        night.tally.tell(resume.unannounced(corpus, defined.name))
        return report(options, corpus, ledger, night)


def seed_of(date: datetime) -> int:
    """The seed of a night: 20261121 for 21 November 2026."""
    return int(f"{date:%Y%m%d}")


@dataclass(slots=True, kw_only=True)
class Night:
    """What a night came to: old findings that were `replayed` and those that were `left`, the new cases, and the new findings again."""

    replayed: list[Triaged] = field(default_factory=list)
    left: int = 0
    tally: Tally = field(default_factory=Tally)
    triaged: list[Triaged] = field(default_factory=list)

    @property
    def trouble(self) -> list[str]:
        """What infrastructure spoiled: cases, and findings that could not be run again."""
        return self.tally.trouble + [
            one.trouble for one in (*self.replayed, *self.triaged) if one.finding.status == Status.ERROR
        ]


def nightly(campaign: Campaign, ledger: Ledger, options: Mapping[str, Any], recorded: Recorded) -> Night:
    """One night on `campaign`'s machine and corpus."""
    began, night = time.monotonic(), Night()
    due = _due(campaign)
    for one in triage(campaign, ledger, utc_today(), REPLAYS, due, most_ranks=most_ranks()):
        night.replayed.append(one)
        click.echo(_line("again", one), err=options["as_json"])
        if time.monotonic() - began > REPLAYED_SHARE * options["budget"]:
            break
    night.left = len(due) - len(night.replayed)
    rest = max(1.0, options["budget"] - (time.monotonic() - began))
    night.tally = run_cases(campaign, {**options, "budget": rest}, recorded)
    for one in triage(
        campaign, ledger, utc_today(), findings=night.tally.new.values(), most_ranks=most_ranks()
    ):
        night.triaged.append(one)
        night.tally.new[one.finding.fingerprint] = one.finding
        click.echo(_line("new", one), err=options["as_json"])
    return night


def report(options: Mapping[str, Any], corpus: Corpus, ledger: Ledger, night: Night) -> int:
    """Writes the reports, `junit.xml` among them, and tells the night; the exit status."""
    if not options["as_json"]:
        counts = Counter(one.finding.status for one in night.replayed)
        told = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status]) or "none"
        click.echo(
            f"replayed {len(night.replayed)} findings: {told}"
            + (f"; {night.left} left for the next night" if night.left else "")
        )
    more = {
        "replayed": {one.finding.fingerprint: one.finding.status for one in night.replayed},
        "left": night.left,
        "triaged": {one.finding.fingerprint: one.finding.status for one in night.triaged},
        "passing": [one.finding.fingerprint for one in night.replayed if one.passes],
        "trouble": night.trouble,
    }
    status = conclude(options, night.tally, known_upstream(corpus, ledger, night.tally), ("junit",), more)
    return int(bool(night.trouble)) if options["fail_on"] == "infra" else status


def _on_a_cluster(corpus: Corpus, ledger: Ledger, options: Mapping[str, Any], recorded: Recorded) -> Night:
    from workers.backends import candidates
    from workers.cluster import dispatch, start

    backends = candidates(options["backends"] or ())
    with start.cluster(options["address"], options["workers"]) as workers:
        pool = dispatch.Pool(workers)
        for name in (ORACLE, *backends):
            pool.require(name)
        campaign = Campaign(
            name=definition(options).name,
            backends=guarded(backends, ledger, utc_today()),
            execute=pool.execute,
            corpus=corpus,
            workers=workers,
            twice_every=options["twice_every"],
        )
        return nightly(campaign, ledger, options, recorded)


def _due(campaign: Campaign) -> list[Finding]:
    """The findings that can be run again here, those that were not checked for longest first."""
    findings = (finding for finding in campaign.corpus.findings() if _runs_here(campaign, finding))
    return sorted(findings, key=lambda finding: (finding.checked, finding.fingerprint))


def _runs_here(campaign: Campaign, finding: Finding) -> bool:
    """Whether the finding's backend is among the night's and takes its case, which is in no quarantine and not too large."""
    case, backend = (
        campaign.corpus.simplest(finding.fingerprint),
        campaign.backends.get(finding.divergence.backend),
    )
    return backend is not None and case.world_size <= most_ranks() and not backend.unsupported(case)


def _line(mark: str, one: Triaged) -> str:
    back, times = one.finding.returned
    return f"  {mark:<5} {one.finding.status:<10} {back}/{times}  {one.finding.fingerprint}"

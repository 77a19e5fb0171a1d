"""`difftest run`: a campaign from generated cases to reports."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from difftest import known
from difftest.campaign import Progress
from difftest.campaign import run as run_campaign
from difftest.case import Case
from difftest.commands._options import Duration, Names, json_option, most_ranks, print_json
from difftest.commands._progress import Meter
from difftest.corpus import Corpus
from difftest.divergence import Finding
from difftest.errors import InfrastructureError
from difftest.examine import ORACLE, Campaign
from difftest.known import Entry, Ledger

CASES = 40
TWICE_EVERY = 8
"""A second run shows what is not deterministic, and costs as much as the first."""

FAIL_ON = ("new", "any", "infra", "never")


@click.command("run")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Case i of a seed is the same everywhere.")
@click.option("--cases", type=click.IntRange(min=1), help=f"How many cases to run.  [default: {CASES}, or as many as --budget allows]")
@click.option("--budget", type=Duration(), help="Start no case after this time, such as 10m.")
@click.option("--paths", type=Names("generators.paths"), help="Only these parallelism paths.  [default: all]")
@click.option("--backends", type=Names("workers.backends", leave_out=ORACLE), help="Only these backends.  [default: all]")
@click.option("--max-world-size", type=int, default=8, show_default=True, help="The most ranks a case may have.")
@click.option("--workers", type=click.IntRange(min=1), help="How many cases run at a time.  [default: the CPUs]")
@click.option("--address", help="A Ray cluster to join.  [default: one of its own on this machine]")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/latest"), show_default=True, help="Where corpus and reports go.")
@click.option(
    "--twice-every", type=click.IntRange(min=0), default=TWICE_EVERY, show_default=True, help="Run each so-manieth case twice; 0: none."
)
@click.option("--known", "ledger", type=click.Path(path_type=Path), default=known.FILE, help="The ledger.  [default: the project's]")
@click.option("--fail-on", type=click.Choice(FAIL_ON), default="new", show_default=True, help="What makes the exit status 1.")
@json_option
def command(**options: Any) -> int:  # noqa: ANN401  click hands over what the decorators declare
    """Generate cases, run them on both sides, compare, and report what diverges."""
    _check_ranks(options["max_world_size"])
    corpus = Corpus(options["out"] / "corpus")
    corpus.prepare()
    corpus.require_readable()
    ledger = known.read(options["ledger"])
    tally = _run(corpus, ledger, options)
    return conclude(options, tally, known_upstream(corpus, ledger, tally))


def _check_ranks(wanted: int) -> None:
    if not 2 <= wanted <= most_ranks():  # noqa: PLR2004  one rank shards nothing
        msg = f"--max-world-size is {wanted}; this machine allows 2 to {most_ranks()}"
        raise click.UsageError(msg)


@dataclass(slots=True)
class Tally:
    """What a campaign came to; the runs' tensors are let go as soon as they are recorded."""

    cases: int = 0
    runs: int = 0
    new: dict[str, Finding] = field(default_factory=dict)
    known: dict[str, Finding] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, progress: Progress) -> None:
        """Adds one case."""
        self.cases += 1
        self.runs += len(progress.examined.runs)
        self.new |= {finding.fingerprint: finding for finding in progress.new}
        self.known |= {finding.fingerprint: finding for finding in progress.known if finding.fingerprint not in self.new}
        if progress.examined.trouble:
            self.trouble.append(progress.examined.trouble)


def _run(corpus: Corpus, ledger: Ledger, options: dict[str, Any]) -> Tally:
    from workers import dispatch
    from workers.backends import candidates

    backends = candidates(options["backends"] or ())
    with dispatch.cluster(options["address"], options["workers"]) as workers:
        pool = dispatch.Pool(workers)
        for name in (ORACLE, *backends):
            pool.require(name)
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-seed{options['seed']}"
        twice = options["twice_every"]
        kept = known.guarded(backends, ledger, known.now())
        campaign = Campaign(name=name, backends=kept, execute=pool.execute, corpus=corpus, workers=workers, twice_every=twice)
        with Meter(options["cases"] or (None if options["budget"] else CASES), options["budget"]) as meter:
            tally, clock = Tally(), time.monotonic()
            for progress in run_campaign(campaign, _cases(options)):
                tally.count(progress)
                meter.saw(progress)
            tally.seconds = time.monotonic() - clock
            return tally


def _cases(options: dict[str, Any]) -> Iterator[tuple[int, Case]]:
    from generators.cases import case_at

    end = time.monotonic() + options["budget"] if options["budget"] else float("inf")
    most = options["cases"] or (None if options["budget"] else CASES)
    for index in itertools.count() if most is None else range(most):
        if time.monotonic() > end:
            return
        yield index, case_at(options["seed"], index, paths=options["paths"], max_world_size=options["max_world_size"])


def known_upstream(corpus: Corpus, ledger: Ledger, tally: Tally) -> dict[str, Entry]:
    """The findings that the ledger knows, by fingerprint."""
    found = {**tally.new, **tally.known}
    entries = {name: ledger.entry(finding, corpus.case(name), known.now()) for name, finding in found.items()}
    return {name: entry for name, entry in entries.items() if entry}


def conclude(options: dict[str, Any], tally: Tally, upstream: dict[str, Entry]) -> int:
    """Writes the reports and tells what was found; the exit status. What is known `upstream` is not new."""
    from reports.write import write

    written = write(options["out"])
    if options["as_json"]:
        print_json(_summary(options, tally) | {"upstream": {name: entry.upstream for name, entry in sorted(upstream.items())}})
    else:
        _tell(tally, written, upstream)
    if tally.trouble and len(tally.trouble) == tally.cases:
        msg = f"no case could be run: {tally.trouble[0]}"
        raise InfrastructureError(msg)
    found = {"new": tally.new.keys() - upstream.keys(), "any": {**tally.new, **tally.known}, "infra": tally.trouble, "never": ()}
    return int(bool(found[options["fail_on"]]))


def _summary(options: dict[str, Any], tally: Tally) -> dict[str, Any]:
    return {
        "seed": options["seed"],
        "cases": tally.cases,
        "runs": tally.runs,
        "new": sorted(tally.new),
        "known": sorted(tally.known),
        "trouble": tally.trouble,
        "seconds": round(tally.seconds, 1),
        "out": str(options["out"]),
    }


def _tell(tally: Tally, written: list[Path], upstream: dict[str, Entry]) -> None:
    click.echo(f"{tally.cases} cases, {tally.runs} runs in {tally.seconds:.0f} s: {len(tally.new)} new findings, {len(tally.known)} known")
    for mark, findings in (("new", tally.new), ("known", tally.known)):
        for fingerprint, finding in sorted(findings.items()):
            reported = f"known upstream: {upstream[fingerprint].upstream}; " if fingerprint in upstream else ""
            click.echo(f"  {mark:<5} {fingerprint}  {finding.blame}; {reported}{finding.detail}")
    for problem in dict.fromkeys(tally.trouble):
        click.echo(f"  infrastructure: {problem}")
    click.echo(f"reports: {', '.join(str(file) for file in written)}")

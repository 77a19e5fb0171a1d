"""`difftest run`: a campaign from generated cases to reports. The same command again goes on where it was, or finds that it is done."""

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import msgspec

from difftest import plugins
from difftest.campaign.campaign import ORACLE, Campaign
from difftest.campaign.recording import Progress
from difftest.campaign.run import run as run_campaign
from difftest.cases.case import Case
from difftest.commands.service.options import Backends, Duration, Names, json_option
from difftest.commands.service.output import print_json
from difftest.commands.service.progress import Meter
from difftest.commands.service.ranks import check_world_size
from difftest.commands.service.storage import Out, placed
from difftest.errors import InfrastructureError, UsageError
from difftest.findings.ledger import LEDGER_FILE, Entry, Ledger, guarded, read_ledger, utc_today
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Symptom
from difftest.records import resume
from difftest.records.corpus import Corpus
from difftest.records.definition import Definition, versions
from difftest.records.finding import Finding
from difftest.records.resume import Recorded

CASES = 40
TWICE_EVERY = 8
"""A second run shows what is not deterministic, and costs as much as the first."""

FAIL_ON = ("new", "any", "infra", "never")


@click.command("run")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Case i of a seed is the same everywhere.",
)
@click.option(
    "--cases",
    type=click.IntRange(min=1),
    help=f"How many cases to run.  [default: {CASES}, or as many as --budget allows]",
)
@click.option("--budget", type=Duration(), help="Start no case after this time, such as 10m.")
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
    "--out", type=Out(), default=Path("runs/latest"), show_default=True, help="Where corpus and reports go."
)
@click.option(
    "--twice-every",
    type=click.IntRange(min=0),
    default=TWICE_EVERY,
    show_default=True,
    help="Run each so-manieth case twice; 0: none.",
)
@click.option(
    "--known",
    "ledger",
    type=click.Path(path_type=Path),
    default=LEDGER_FILE,
    help="The ledger.  [default: the project's]",
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Run every case again, though this campaign has runs in --out: they are set aside.",
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
    """Generate cases, run them on both sides, compare, and report what diverges.

    What an earlier run of the same campaign recorded in --out (the same seed, paths, backends, world size, --twice-every and
    versions) is not run again.
    """
    check_world_size(options["max_world_size"])
    with placed(options["out"]) as out:
        return _command({**options, "told": options["out"], "out": out})


def _command(options: Mapping[str, Any]) -> int:
    corpus = prepared(options["out"])
    ledger = read_ledger(options["ledger"])
    defined = definition(options)
    with resume.resumed(corpus, defined.name, fresh=options["fresh"]) as recorded:
        defined.keep(corpus)
        tally = _run(corpus, ledger, options, recorded)
        tally.tell(resume.unannounced(corpus, defined.name))
        return conclude(options, tally, known_upstream(corpus, ledger, tally))


def prepared(out: Path) -> Corpus:
    """The corpus of an output folder, which can be read and written; `UsageError` where not."""
    corpus = Corpus(out / "corpus")
    corpus.prepare()
    corpus.require_readable()
    return corpus


def definition(options: Mapping[str, Any]) -> Definition:
    """What defines the campaign that these options ask for."""
    from workers.backends import candidates
    from workers.cluster import environments

    backends = tuple(sorted(candidates(options["backends"] or ())))
    return Definition(
        seed=options["seed"],
        paths=tuple(sorted(options["paths"] or plugins.names("generators.paths"))),
        backends=backends,
        max_world_size=options["max_world_size"],
        twice_every=options["twice_every"],
        versions=versions(),
        where=environments.chosen(backends),
    )


@dataclass(slots=True)
class Tally:
    """What a campaign came to; the runs' tensors are let go as soon as they are recorded.

    `resumed` are the cases that an earlier command had recorded; `cases` and `runs` are this one's. `sightings` are by fingerprint what
    showed it, with the case: a fault that nobody knows may look like one that is known.
    """

    cases: int = 0
    runs: int = 0
    resumed: int = 0
    new: dict[str, Finding] = field(default_factory=dict)
    known: dict[str, Finding] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)
    seconds: float = 0.0
    compared: int = 0
    sightings: dict[str, list[tuple[Divergence, Case]]] = field(default_factory=dict)

    def count(self, progress: Progress) -> None:
        """Adds one case."""
        self.cases += 1
        self.runs += len(progress.result.runs)
        self.new |= {finding.fingerprint: finding for finding in progress.new}
        self.known |= {
            finding.fingerprint: finding for finding in progress.known if finding.fingerprint not in self.new
        }
        if progress.result.trouble:
            self.trouble.append(progress.result.trouble)
        comparisons = progress.result.comparisons.values()
        self.compared += len(comparisons)
        for first in (comparison.divergences[0] for comparison in comparisons if comparison.divergences):
            self.sightings.setdefault(first.fingerprint, []).append(
                (msgspec.structs.replace(first, log=""), progress.result.case)
            )

    def tell(self, findings: Iterable[Finding]) -> None:
        """Adds what nobody was told of yet, as new, whichever command found it."""
        self.new |= {finding.fingerprint: finding for finding in findings}
        self.known = {name: finding for name, finding in self.known.items() if name not in self.new}


def _run(corpus: Corpus, ledger: Ledger, options: Mapping[str, Any], recorded: Recorded) -> Tally:
    from workers.backends import candidates
    from workers.cluster import dispatch, start

    backends = candidates(options["backends"] or ())
    with start.cluster(options["address"], options["workers"]) as workers:
        pool = dispatch.Pool(workers)
        for name in (ORACLE, *backends):
            pool.require(name)
        name, twice = definition(options).name, options["twice_every"]
        kept = guarded(backends, ledger, utc_today())
        campaign = Campaign(
            name=name, backends=kept, execute=pool.execute, corpus=corpus, workers=workers, twice_every=twice
        )
        return run_cases(campaign, options, recorded)


def run_cases(campaign: Campaign, options: Mapping[str, Any], recorded: Recorded) -> Tally:
    """Runs the cases that the options ask for and that are not `recorded`, with a meter."""
    present = set(campaign.corpus.fingerprints())
    seen = {name: campaign.corpus.finding(name) for name in recorded.sightings if name in present}
    tally, clock = Tally(resumed=len(recorded.cases), known=seen), time.monotonic()
    if recorded.cases:
        click.echo(f"campaign {campaign.name}: goes on from {tally.resumed} recorded cases", err=True)
    most = _most(options)
    left = None if most is None else most - sum(index < most for index, _ in recorded.cases)
    with Meter(left, options["budget"]) as meter:
        for progress in run_campaign(campaign, _cases(options), recorded):
            tally.count(progress)
            meter.saw(progress)
    tally.seconds = time.monotonic() - clock
    return tally


def _most(options: Mapping[str, Any]) -> int | None:
    """How many cases at most; None where only the budget ends them."""
    most: int | None = options["cases"] or (None if options["budget"] else CASES)
    return most


def _cases(options: Mapping[str, Any]) -> Iterator[tuple[int, Case]]:
    from generators.cases import case_at

    end = time.monotonic() + options["budget"] if options["budget"] else float("inf")
    most = _most(options)
    for index in itertools.count() if most is None else range(most):
        if time.monotonic() > end:
            return
        yield (
            index,
            case_at(options["seed"], index, paths=options["paths"], max_world_size=options["max_world_size"]),
        )


def known_upstream(corpus: Corpus, ledger: Ledger, tally: Tally) -> dict[str, Entry]:
    """The findings that the ledger knows, by fingerprint: as they were first found, and however they were seen now."""
    today, entries = utc_today(), dict[str, list[Entry | None]]()
    for name, finding in {**tally.new, **tally.known}.items():
        details = [(finding.divergence.detail, corpus.case(name))]
        details += [(divergence.detail, case) for divergence, case in tally.sightings.get(name, ())]
        entries[name] = [ledger.entry(name, detail, case, today) for detail, case in details]
    return {name: matched[0] for name, matched in entries.items() if matched[0] and all(matched)}


def conclude(
    options: Mapping[str, Any],
    tally: Tally,
    upstream: Mapping[str, Entry],
    formats: Iterable[str] = (),
    more: Mapping[str, Any] | None = None,
) -> int:
    """Writes the reports and tells what was found; the exit status. What is known `upstream` is not new.

    `formats` are written besides the usual ones, and the JSON object has what is in `more` too. What was told as new is known from
    then on.
    """
    corpus = Corpus(options["out"] / "corpus")
    fresh = _kept(corpus, tally, upstream)
    _report(options, tally, upstream, formats, more or {})
    _require_compared(tally)
    resume.mark_announced(corpus, tally.new)
    found = {"new": fresh, "any": {**tally.new, **tally.known}, "infra": tally.trouble, "never": ()}
    return int(bool(found[options["fail_on"]]))


def _kept(corpus: Corpus, tally: Tally, upstream: Mapping[str, Entry]) -> set[str]:
    """Keeps with the findings what is known of them upstream; the fingerprints that turn a campaign red, as nobody knows them (any more).

    A run that was late once and in none of its repetitions is told, and turns nothing red: a busy machine is late too.
    """
    fresh = tally.new.keys() - upstream.keys()
    for name, finding in {**tally.new, **tally.known}.items():
        if finding.upstream != (issue := upstream[name].upstream if name in upstream else ""):
            corpus.amend(name, upstream=issue)
            fresh |= {name} - upstream.keys()
    return fresh - {
        name
        for name, finding in tally.new.items()
        if finding.divergence.symptom is Symptom.HANG and not finding.stable[0]
    }


def _report(
    options: Mapping[str, Any],
    tally: Tally,
    upstream: Mapping[str, Entry],
    formats: Iterable[str],
    more: Mapping[str, Any],
) -> None:
    from reports.write import DEFAULT_FORMATS, write

    written = write(options["out"], (*DEFAULT_FORMATS, *formats))
    if options["as_json"]:
        reported = {name: entry.upstream for name, entry in sorted(upstream.items())}
        print_json(_summary(options, tally) | {"upstream": reported} | dict(more))
    else:
        _tell(tally, [f"{_called(options)}/{file.relative_to(options['out'])}" for file in written], upstream)


def _require_compared(tally: Tally) -> None:
    """`InfrastructureError` where no case could be run, `UsageError` where no backend takes any."""
    if tally.trouble and not tally.runs:
        msg = f"no case could be run: {tally.trouble[0]}"
        raise InfrastructureError(msg)
    if tally.runs and not (tally.compared or tally.resumed):
        msg = f"nothing was compared: no backend takes any of the {tally.cases} cases (`difftest support` tells which take what)"
        raise UsageError(msg)


def _summary(options: Mapping[str, Any], tally: Tally) -> dict[str, Any]:
    return {
        "seed": options["seed"],
        "cases": tally.cases,
        "resumed": tally.resumed,
        "runs": tally.runs,
        "new": sorted(tally.new),
        "known": sorted(tally.known),
        "trouble": tally.trouble,
        "seconds": round(tally.seconds, 1),
        "out": _called(options),
    }


def _called(options: Mapping[str, Any]) -> str:
    """The folder or the address that the user gave; an address is worked on in another folder, which goes away."""
    return str(options.get("told", options["out"]))


def _tell(tally: Tally, written: Iterable[str], upstream: Mapping[str, Entry]) -> None:
    more = f" after {tally.resumed} recorded before" if tally.resumed else ""
    head = f"{tally.cases} cases, {tally.runs} runs{more} in {tally.seconds:.0f} s"
    click.echo(f"{head}: {len(tally.new)} new findings, {len(tally.known)} known")
    for mark, findings in (("new", tally.new), ("known", tally.known)):
        for fingerprint, finding in sorted(findings.items()):
            reported = (
                f"known upstream: {upstream[fingerprint].upstream}; " if fingerprint in upstream else ""
            )
            click.echo(f"  {mark:<5} {fingerprint}  {finding.blame}; {reported}{finding.divergence.detail}")
    for problem in dict.fromkeys(tally.trouble):
        click.echo(f"  infrastructure: {problem}")
    click.echo(f"reports: {', '.join(written)}")

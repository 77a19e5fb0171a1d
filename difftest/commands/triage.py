"""`difftest triage`: every finding run again, and its status."""

from collections import Counter
from pathlib import Path
from typing import Any

import click

from difftest.commands import Group
from difftest.findings.causes import causes
from difftest.findings.ledger import Entry, Ledger, read_ledger
from difftest.findings.triage import TIMES, Status, Triaged, triage
from difftest.ground import plugins
from difftest.ground.clock import utc_today
from difftest.ground.counted import counted
from difftest.ground.errors import InfrastructureError
from difftest.jobs.ask.capacity import check_runnable, most_ranks
from difftest.jobs.ask.finding_path import located
from difftest.jobs.ask.options import Deciding, Json, KnownFaults, Trust, Workers, own_options
from difftest.jobs.ask.targets import read_corpus
from difftest.jobs.campaign.cluster import on_cluster
from difftest.jobs.screen.output import print_json
from difftest.judge.fingerprint import readable
from difftest.records import announced
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding

GROUP = Group.UNDERSTAND


@click.command("triage")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("fingerprints", nargs=-1, metavar="[FINGERPRINT...]")
@click.option(
    "--times",
    type=click.IntRange(min=1),
    default=TIMES,
    show_default=True,
    help="How often to run each finding again.",
)
@click.option(
    "--acknowledge",
    is_flag=True,
    cls=Deciding,
    help="Run nothing; mark the findings as no longer new, so that --fail-on new ignores them.",
)
@own_options
def command(  # noqa: PLR0913  click hands over what the decorators declare
    folder: Path,
    fingerprints: tuple[str, ...],
    times: int,
    ledger: KnownFaults,
    workers: Workers,
    *,
    acknowledge: bool,
    trust: Trust,
    as_json: Json,
) -> int:
    """Run a campaign's findings again: the named ones, or all.

    Exit status 1 when the ledger is out of date: an entry has expired, or the fault of an entry is gone.
    """
    known_faults, (corpus, damaged) = read_ledger(ledger), read_corpus(folder)
    named = [located(corpus.root / name).name for name in fingerprints]
    chosen = [corpus.finding(name) for name in named or corpus.fingerprints()]
    if acknowledge:
        return _acknowledge(corpus, chosen, as_json=as_json)
    expired = known_faults.expired(utc_today())
    for finding in chosen:
        check_runnable(corpus.simplest(finding.fingerprint), trust=trust)
    triaged = _triage(corpus, chosen, known_faults, times, workers, as_json=as_json) if chosen else []
    if triaged and all(result.finding.status == Status.ERROR for result in triaged):
        msg = f"no finding could be run again: {triaged[0].trouble}"
        raise InfrastructureError(msg)
    passing = [result for result in triaged if result.passes]
    if as_json:
        _print_json(triaged, passing, expired, damaged)
    else:
        _print(triaged, passing, expired, damaged, known_faults.warning(utc_today()))
    return int(bool(passing or expired))


def _acknowledge(corpus: Corpus, chosen: list[Finding], *, as_json: bool) -> int:
    """Makes the findings known, and prints those that were new."""
    names = announced.acknowledge(corpus, [finding.fingerprint for finding in chosen])
    if as_json:
        print_json({"acknowledged": list(names)})
    else:
        are = f"{counted(len(names), 'finding')} {'is' if len(names) == 1 else 'are'}"
        click.echo("\n".join((f"{are} no longer new", *(f"  {name}" for name in names))))
    return 0


def _triage(  # noqa: PLR0913  a corpus, a ledger, and how much to run
    corpus: Corpus, chosen: list[Finding], ledger: Ledger, times: int, workers: int | None, *, as_json: bool
) -> list[Triaged]:
    """Runs the chosen findings of the corpus again, and prints a line for each as it ends."""
    from workers.backends import candidates

    triaged = []
    # No backend is required: one that lacks a package must fail its own findings, not the whole triage.
    with on_cluster(candidates(_backends(chosen)), workers=workers, required=(), working="triage") as cluster:
        campaign = cluster.campaign("triage", corpus)
        for result in triage(campaign, ledger, utc_today(), times, chosen, most_ranks=most_ranks()):
            triaged.append(result)
            click.echo(_line(result), err=as_json)
    return triaged


def _backends(chosen: list[Finding]) -> tuple[str, ...]:
    """The backends of the findings that still exist, including those that run on request only."""
    existing = plugins.names("workers.backends")
    backends = {finding.divergence.backend for finding in chosen}
    return tuple(sorted(backend for backend in backends if plugins.plain(backend) in existing))


def _print_json(
    triaged: list[Triaged], passing: list[Triaged], expired: tuple[Entry, ...], damaged: int
) -> None:
    print_json(
        {
            "findings": [_described(result) for result in triaged],
            "expired": [_described_entry(entry) for entry in expired],
            "passing": [result.finding.fingerprint for result in passing],
            "damaged": damaged,
        }
    )


def _print(
    triaged: list[Triaged], passing: list[Triaged], expired: tuple[Entry, ...], damaged: int, warning: str
) -> None:
    counts = Counter(result.finding.status for result in triaged)
    statuses = ", ".join(f"{counts[s]} {s}" for s in Status if counts[s]) or "nothing to run"
    unread = f"; {damaged} damaged records" if damaged else ""
    click.echo(f"{len(triaged)} findings: {statuses}{unread}")
    for cause in causes((result.finding for result in triaged), of_programs_alone=True):
        if cause.operators:
            names = " ".join((cause.finding.fingerprint, *cause.others))
            click.echo(f"cause: {cause.operators_in_short} on {', '.join(cause.backends)}: {names}")
    for one in passing:
        reason = _reason(one.entry)
        name = one.finding.fingerprint
        click.echo(f"passes unexpectedly: {name}, which the ledger knows as {reason}")
    for entry in expired:
        click.echo(f"expired on {entry.expires}: {entry.fingerprint}, {_reason(entry)}")
    if warning:
        click.echo(warning)


def _reason(entry: Entry | None) -> str:
    return f"{entry.reason} ({entry.upstream})" if entry else ""


def _line(triaged: Triaged) -> str:
    finding = triaged.finding
    back, times = finding.returned
    notes = [f"known: {triaged.entry.upstream}"] if triaged.entry else []
    notes += [f"now {name}" for name in triaged.now_shows] + ([triaged.trouble] if triaged.trouble else [])
    return (
        f"{finding.status:<10} {back}/{times}  {readable(finding.fingerprint)}  {'; '.join(notes)}".rstrip()
    )


def _described(triaged: Triaged) -> dict[str, Any]:
    finding = triaged.finding
    return {
        "fingerprint": finding.fingerprint,
        "status": finding.status,
        "returned": list(finding.returned),
        "checked": finding.checked,
        "case": triaged.case,
        "known": triaged.entry.upstream if triaged.entry else None,
        "now_shows": list(triaged.now_shows),
        "trouble": triaged.trouble,
    }


def _described_entry(entry: Entry) -> dict[str, str]:
    return {
        "fingerprint": entry.fingerprint,
        "upstream": entry.upstream,
        "reason": entry.reason,
        "expires": str(entry.expires),
    }

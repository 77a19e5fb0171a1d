"""`difftest triage`: every finding again, and what has become of it."""

from collections import Counter
from pathlib import Path
from typing import Any

import click

from difftest import plugins
from difftest.campaign.campaign import Campaign
from difftest.commands.service.options import json_option
from difftest.commands.service.output import print_json
from difftest.commands.service.ranks import check_ranks, most_ranks
from difftest.errors import InfrastructureError, UsageError
from difftest.findings.ledger import LEDGER_FILE, Entry, read_ledger, utc_today
from difftest.findings.triage import TIMES, Status, Triaged, triage
from difftest.records.corpus import Corpus


@click.command("triage")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--times",
    type=click.IntRange(min=1),
    default=TIMES,
    show_default=True,
    help="How often each is run again.",
)
@click.option(
    "--known",
    "ledger",
    type=click.Path(path_type=Path),
    default=LEDGER_FILE,
    help="The ledger.  [default: the project's]",
)
@click.option("--workers", type=click.IntRange(min=1), help="How many runs at a time.  [default: the CPUs]")
@json_option
def command(folder: Path, times: int, ledger: Path, workers: int | None, *, as_json: bool) -> int:
    """Run a campaign's findings again; exit status 1 when the ledger is out of date: an entry expired, or its fault is gone."""
    entries, today = read_ledger(ledger), utc_today()
    corpus = _corpus(folder)
    found: list[Triaged] = []
    if corpus.fingerprints():
        from workers.backends import candidates
        from workers.cluster import dispatch, start

        with start.cluster(None, workers) as count:
            pool = dispatch.Pool(count)
            backends = candidates(_backends(corpus))
            campaign = Campaign(
                name="triage", backends=backends, execute=pool.execute, corpus=corpus, workers=count
            )
            for one in triage(campaign, entries, today, times, most_ranks=most_ranks()):
                found.append(one)
                click.echo(_line(one), err=as_json)
    if found and all(one.finding.status == Status.ERROR for one in found):
        msg = f"no finding could be run again: {found[0].trouble}"
        raise InfrastructureError(msg)
    return _conclude(found, entries.expired(today), as_json=as_json)


def _corpus(folder: Path) -> Corpus:
    """The corpus in a campaign's folder, or the folder itself. `UsageError` when there is none, or it cannot be read."""
    root = folder / "corpus" if (folder / "corpus").is_dir() else folder
    if not root.is_dir():
        msg = f"{str(folder)!r} holds no findings; give the folder of a campaign, such as runs/first"
        raise UsageError(msg)
    corpus = Corpus(root)
    corpus.require_readable()
    for fingerprint in corpus.fingerprints():
        check_ranks(corpus.simplest(fingerprint))
    return corpus


def _backends(corpus: Corpus) -> tuple[str, ...]:
    """Those that the corpus has findings of and that there still are, also the ones that run on request only."""
    there = plugins.names("workers.backends")
    return tuple(
        sorted(
            {
                finding.divergence.backend
                for finding in corpus.findings()
                if plugins.plain(finding.divergence.backend) in there
            }
        )
    )


def _conclude(found: list[Triaged], expired: tuple[Entry, ...], *, as_json: bool) -> int:
    passing = [one for one in found if one.passes]
    if as_json:
        told = [_described(one) for one in found]
        print_json(
            {
                "findings": told,
                "expired": [_named(e) for e in expired],
                "passing": [one.finding.fingerprint for one in passing],
            }
        )
    else:
        counts = Counter(one.finding.status for one in found)
        click.echo(
            f"{len(found)} findings: "
            + (", ".join(f"{counts[s]} {s}" for s in Status if counts[s]) or "nothing to run")
        )
        for one in passing:
            click.echo(
                f"passes unexpectedly: {one.finding.fingerprint}, which the ledger knows as {_of(one.entry)}"
            )
        for entry in expired:
            click.echo(f"expired on {entry.expires}: {entry.fingerprint}, {_of(entry)}")
    return int(bool(passing or expired))


def _of(entry: Entry | None) -> str:
    return f"{entry.reason} ({entry.upstream})" if entry else ""


def _named(entry: Entry) -> dict[str, str]:
    return {
        "fingerprint": entry.fingerprint,
        "upstream": entry.upstream,
        "reason": entry.reason,
        "expires": str(entry.expires),
    }


def _line(one: Triaged) -> str:
    finding = one.finding
    back, times = finding.returned
    told = [f"known: {one.entry.upstream}"] if one.entry else []
    told += [f"now {name}" for name in one.now_shows] + ([one.trouble] if one.trouble else [])
    return f"{finding.status:<10} {back}/{times}  {finding.fingerprint}  {'; '.join(told)}".rstrip()


def _described(one: Triaged) -> dict[str, Any]:
    finding = one.finding
    return {
        "fingerprint": finding.fingerprint,
        "status": finding.status,
        "returned": list(finding.returned),
        "checked": finding.checked,
        "case": one.case,
        "known": one.entry.upstream if one.entry else None,
        "now_shows": list(one.now_shows),
        "trouble": one.trouble,
    }

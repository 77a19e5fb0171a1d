"""`difftest replay`: one case again, in fresh processes; often and under load where a race is hunted, with the rate of every outcome."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import click

from difftest.campaign.again import takes_two
from difftest.campaign.campaign import ORACLE
from difftest.campaign.case_run import IN_DOUBT, believed
from difftest.cases.case import Case
from difftest.commands.service.options import Backends, check_ranks, json_option, print_json
from difftest.errors import UsageError
from difftest.judge.comparator import Comparison, compare
from difftest.plugins import IN, plain
from difftest.records.case_files import read_case
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding

LOAD = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"
"""Takes CPU time for as long as its parent lives, however that ends."""


@dataclass(frozen=True, slots=True)
class Target:
    """What to replay: a case, and the finding it belongs to if any."""

    case: Case
    finding: Finding | None


@click.command("replay")
@click.argument("target", metavar="CASE_OR_FINDING", type=click.Path(path_type=Path))
@click.option("--backends", type=Backends(), help="Which to run.  [default: the finding's, or all]")
@click.option("--times", type=click.IntRange(min=1), default=1, show_default=True, help="How often.")
@click.option(
    "--load",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="How many busy processes run beside it.",
)
@json_option
def command(target: Path, backends: tuple[str, ...] | None, times: int, load: int, *, as_json: bool) -> int:
    """Run a case file, or the case of a finding's folder, again; exit status 1 when it diverges.

    With --times, the rate of every outcome is told; with --load too, races have more to race with.
    """
    what = read_target(target)
    check_ranks(what.case)
    with busy(load):
        results = list(_replays(what, backends, times, load))
    fingerprint = what.finding.fingerprint if what.finding else None
    told: dict[str, Any] = {
        "case": what.case.id,
        "fingerprint": fingerprint,
        "times": times,
        "load": load,
        "results": results,
    }
    told["rates"] = rates(results)
    told["reproduced"] = sum(fingerprint in r["fingerprints"] for r in results) if fingerprint else None
    if as_json:
        print_json(told)
    else:
        _tell(told)
    return int(any(r["verdict"] == "diverge" for r in results))


def read_target(target: Path) -> Target:
    """A case file, a finding's folder, or its `finding.json`. `UsageError` for anything else."""
    if target.name == "finding.json":
        target = target.parent
    if not target.is_dir():
        return Target(read_case(target), None)
    if not (target / "finding.json").is_file():
        msg = f"{str(target)!r} holds no finding.json; give a case file or a finding's folder, such as runs/first/corpus/FINGERPRINT"
        raise UsageError(msg)
    corpus, name = Corpus(target.resolve().parent), target.resolve().name
    return Target(corpus.case(name), corpus.finding(name))


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that do nothing but take CPU time from others."""
    running = [subprocess.Popen([sys.executable, "-c", LOAD, str(os.getpid())]) for _ in range(processes)]  # noqa: S603  our own Python
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def rates(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """By backend, how often each outcome came: a fingerprint, or the verdict where there is none."""
    counted: dict[str, Counter[str]] = {}
    for result in results:
        outcome = (*result["fingerprints"], result["verdict"])[0]
        counted.setdefault(result["backend"], Counter())[outcome] += 1
    return {backend: dict(counter.most_common()) for backend, counter in counted.items()}


def _replays(what: Target, wanted: tuple[str, ...] | None, times: int, load: int) -> Iterator[dict[str, Any]]:
    from workers.backends import candidates
    from workers.isolate import sandbox

    deadline = sandbox.DEADLINE_SECONDS * (
        1 + load / (os.cpu_count() or 1)
    )  # who is given less of the machine needs longer
    names = wanted or ((what.finding.divergence.backend,) if what.finding else ())
    if elsewhere := [name for name in names if IN in name]:
        msg = f"{elsewhere[0]} runs in an environment of its own, and a replay in this one; give --backends {plain(elsewhere[0])}"
        raise UsageError(msg)
    chosen = candidates(names)
    execute = partial(sandbox.run, what.case, deadline=deadline)
    truth, in_doubt = execute(ORACLE), cache(partial(execute, ORACLE, options=IN_DOUBT))
    twice = what.finding is not None and takes_two(what.finding.divergence.check)
    for _ in range(times):
        for name, backend in chosen.items():
            reason = backend.unsupported(what.case)
            if reason:
                yield {"backend": name, "verdict": "unsupported", "reason": reason, "fingerprints": []}
            else:
                compared = partial(
                    compare,
                    what.case,
                    name,
                    backend.SIDE,
                    actual=execute(name),
                    again=execute(name) if twice else None,
                )
                yield _described(name, believed(compared, truth, in_doubt))


def _described(backend: str, comparison: Comparison) -> dict[str, Any]:
    first = comparison.divergences[:1]
    return {
        "backend": backend,
        "verdict": comparison.verdict,
        "reason": comparison.reason or "".join(d.detail for d in first),
        "fingerprints": [d.fingerprint for d in first],
        "ratio": max((m.ratio for m in comparison.measurements), default=None),
    }


def _tell(told: dict[str, Any]) -> None:
    for result in told["results"]:
        click.echo(
            f"{result['backend']}: {result['verdict']}  {' '.join(result['fingerprints'])}  {result['reason']}".rstrip()
        )
    if told["times"] > 1:
        for backend, counted in told["rates"].items():
            for outcome, count in counted.items():
                click.echo(f"{backend}: {outcome} {count} of {told['times']}")
    if told["fingerprint"]:
        click.echo(f"{told['fingerprint']}: reproduced {told['reproduced']} of {told['times']}")

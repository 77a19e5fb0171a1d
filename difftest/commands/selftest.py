"""`difftest selftest`: the service measured on itself: planted defects it must find, and correct runs it must not blame."""

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from difftest.campaign.campaign import ORACLE
from difftest.campaign.case_run import MORE_SAMPLES
from difftest.campaign.memo import Memo
from difftest.cases.case import Case
from difftest.commands.service.options import json_option
from difftest.commands.service.output import print_json
from difftest.commands.service.planting import Planting
from difftest.errors import UsageError
from difftest.findings.ledger import Ledger, read_ledger, utc_today
from difftest.judge.outcome import Failure, Outcome, Trace
from difftest.selftest.rates import (
    Null,
    Planted,
    detection_curve,
    null,
    null_summary,
    passed,
    planted_summary,
    sweep,
)

if TYPE_CHECKING:
    from workers.backends import Backend
    from workers.cluster.dispatch import Pool
    from workers.faults import PlantedFault

T = TypeVar("T")

NULL_CASES = 20
PLANTED_CASES = 100
SWEEP_COUNT = 40
TOLD_EVERY = 10
PLANTED_DEADLINES = 0.5
"""Of a usual run's, for runs with a defect: planted hangs are many, and each waits for it."""

NULL_DEADLINES = 4.0
"""Correct runs never hang; one that is slow on a busy machine must not look as if it did."""


@click.command("selftest")
@click.option("--planted", "part", flag_value="planted", help="Only the planted defects.")
@click.option("--null", "part", flag_value="null", help="Only the null campaign.")
@click.option(
    "--cases",
    type=click.IntRange(min=1),
    help=f"The null campaign's cases, and the most a defect may take.  [default: {NULL_CASES}, {PLANTED_CASES}]",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Of the generated cases."
)
@click.option("--defects", default="", help="Only these planted defects, comma-separated.")
@click.option("--workers", type=click.IntRange(min=1), help="How many runs at a time.  [default: the CPUs]")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write selftest.json and selftest.html there.",
)
@json_option
def command(**options: Any) -> int:  # noqa: ANN401  click hands over what the decorators declare
    """Measure detection, blame and false findings; exit status 1 when a rate misses its bar."""
    from workers.backends import candidates
    from workers.cluster import dispatch, start
    from workers.isolate import limits

    chosen, backends = _chosen(options["defects"]), candidates()
    told: dict[str, Any] = {"seed": options["seed"]}
    with start.cluster(None, options["workers"]) as workers, ThreadPoolExecutor(workers) as threads:
        pool = dispatch.Pool(workers, deadline=NULL_DEADLINES * limits.DEADLINE_SECONDS)
        if options["part"] != "null":
            impatient = dispatch.Pool(workers, deadline=PLANTED_DEADLINES * limits.DEADLINE_SECONDS)
            most = options["cases"] or PLANTED_CASES
            cases = partial(_cases, options["seed"], most)
            planting = Planting(
                backends=backends,
                cases=cases,
                most=most,
                execute=impatient.execute,
                correct=Memo(pool.execute),
            )
            told["planted"] = planted_summary(_watched(threads.map(planting.find, chosen)))
        if options["part"] != "planted":
            units = [name for name, backend in backends.items() if backend.PROFILE.cost_unit]
            numbered = enumerate(_cases(options["seed"], options["cases"] or NULL_CASES))
            held = list(_told(threads.map(partial(_null, pool, backends, read_ledger()), numbered)))
            told["null"] = null_summary(list(itertools.chain.from_iterable(rows for rows, _ in held)), units)
            told["sweep"] = detection_curve(itertools.chain.from_iterable(curve for _, curve in held))
        told["environment"] = dict(pool.execute(_case(options["seed"], 0), ORACLE).environment)
    if options["out"]:
        _write(options["out"], told)
    if options["as_json"]:
        print_json(told)
    else:
        _tell(told)
    return int(not passed(told))


def _write(out: Path, told: Mapping[str, Any]) -> None:
    from reports.page import selftest

    out.mkdir(parents=True, exist_ok=True)
    (out / "selftest.json").write_bytes(msgspec.json.format(msgspec.json.encode(told, enc_hook=str)))
    (out / selftest.FILENAME).write_bytes(selftest.render(told))


def _chosen(names: str) -> list[tuple["PlantedFault", str]]:
    """Every planted defect that this machine's cards let a case show, with every backend it goes into, or only those named."""
    from workers.cards import cards
    from workers.faults import all_faults

    faults, there = all_faults(), cards()
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    wanted = wanted or [name for name, fault in faults.items() if fault.least_cards <= there]
    for name in wanted:
        if name not in faults:
            msg = f"unknown defect {name!r}; allowed: {', '.join(sorted(faults))}"
            raise UsageError(msg)
    return [(faults[name], backend) for name in wanted for backend in faults[name].backends]


def _case(seed: int, index: int) -> Case:
    from generators.cases import case_at

    return case_at(seed, index)


def _cases(seed: int, count: int) -> Iterator[Case]:
    return (_case(seed, index) for index in range(count))


def _watched(results: Iterable[Planted]) -> list[Planted]:
    """The results, each told on standard error as it comes."""
    seen = []
    for result in results:
        seen.append(result)
        found = f"found after {result.cases} cases and {result.seconds:.0f} s, {result.blame}"
        click.echo(
            f"{result.defect} on {result.backend}: {found if result.detected else f'not found in {result.cases} cases'}",
            err=True,
        )
    return seen


def _told(held: Iterable[tuple[list[Null], T]]) -> Iterator[tuple[list[Null], T]]:
    """The null campaign's cases, each false finding told on standard error as it comes."""
    for count, (rows, curve) in enumerate(held, 1):
        for row in rows:
            if row.false:
                click.echo(f"case {row.case} on {row.backend}: {'; '.join(row.false)}", err=True)
        if not count % TOLD_EVERY:
            click.echo(f"{count} cases held", err=True)
        yield rows, curve


def _null(
    pool: "Pool", backends: Mapping[str, "Backend"], ledger: Ledger, numbered: tuple[int, Case]
) -> tuple[list[Null], list[tuple[float, bool]]]:
    """One case on a backend of either side, against the oracle and against one of its own legal variants, in turn; and the sweep."""
    index, case = numbered
    truth, cost = _timed(pool, case, ORACLE)
    if isinstance(truth, Failure):
        return [], []
    ran: dict[str, tuple[Outcome, Mapping[str, Outcome], float]] = {}
    for name in _held(backends, case):
        variants = backends[name].PROFILE.variants
        word, options = variants[index % len(variants)]
        plain, seconds = _timed(pool, case, name)
        ran[name] = plain, {word: pool.execute(case, name, options)}, seconds

    def held(truth: Trace) -> list[Null]:
        return [
            replace(
                null(
                    case,
                    name,
                    backends[name].SIDE,
                    truth,
                    plain,
                    variants,
                    lambda d: ledger.entry(d.fingerprint, d.detail, case, utc_today()),
                ),
                seconds=seconds,
                oracle_seconds=cost,
            )
            for name, (plain, variants, seconds) in ran.items()
        ]

    rows = held(truth)
    if any(row.false for row in rows) and isinstance(sure := pool.execute(case, ORACLE, MORE_SAMPLES), Trace):
        rows = held(sure)  # as a campaign does before it believes a mismatch
    return rows, list(sweep(truth, case.unsharded().layout.mesh, SWEEP_COUNT, case.seed))


def _held(backends: Mapping[str, "Backend"], case: Case) -> list[str]:
    """One backend a side of those that support the case, by its seed: many cases on some backends show more than few on all."""
    able = [(backend.SIDE, name) for name, backend in backends.items() if not backend.unsupported(case)]
    sides = [[name for side, name in able if side == one] for one in sorted({side for side, _ in able})]
    return [names[case.seed % len(names)] for names in sides if names]


def _timed(pool: "Pool", case: Case, backend: str) -> tuple[Outcome, float]:
    """A run, and its wall time in seconds."""
    began = time.monotonic()
    return pool.execute(case, backend), time.monotonic() - began


def _tell(told: Mapping[str, Any]) -> None:
    if planted := told.get("planted"):
        rates = f"detection {planted['detection_rate']:.1%}, blame {planted['blame_rate']:.1%}"
        click.echo(f"planted: {planted['detected']} of {planted['defects']} found; {rates}")
        if (told_apart := planted["fingerprints"])["purity"] is not None:
            click.echo(
                f"  fingerprints: purity {told_apart['purity']:.1%}, completeness {told_apart['completeness']:.1%}"
            )
    if nothing := told.get("null"):
        click.echo(
            f"null: {nothing['false_findings']} false findings in {nothing['cases']} cases ({nothing['runs']} runs)"
        )
        click.echo(f"  {sum(nothing['upstream_faults'].values())} runs showed upstream faults of their own")
        if nothing["oracle_cost"]:
            click.echo(
                f"  the oracle with its noise floor costs {nothing['oracle_cost']:.2f} of the XLA run (median)"
            )
        click.echo(f"  greatest error of a correct run: {nothing['greatest_ratio']:.1f} floors")
        for row in nothing["by_false_finding"]:
            click.echo(f"  {row['case']} on {row['backend']}: {'; '.join(row['false'])}")
    for size, share in told.get("sweep", {}).items():
        click.echo(f"  errors of {size:g} floors: {share:.0%} detected")

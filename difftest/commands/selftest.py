"""`difftest selftest`: the service measured on itself.

It must find planted defects, and must find nothing in correct runs.
"""

import itertools
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click
import msgspec

from difftest.campaign.campaign import ORACLE
from difftest.campaign.groups import grouped
from difftest.campaign.memo import Memo
from difftest.cases.twins import twin
from difftest.commands import Group
from difftest.findings.ledger import read_ledger
from difftest.ground.errors import StoppedError
from difftest.jobs.ask.case_source import Inputs, MaxWorldSize, Seed
from difftest.jobs.ask.options import ChosenBackends, Json, Load, Names, Workers, option, options
from difftest.jobs.campaign.cluster import Cluster, on_cluster
from difftest.jobs.campaign.cpu_load import busy
from difftest.jobs.proof.correct_runs import null_summary
from difftest.jobs.proof.green_campaigns import GreenCampaigns, chosen_vacuous
from difftest.jobs.proof.green_summary import green_summary
from difftest.jobs.proof.null_campaign import NullCampaign, check_all
from difftest.jobs.proof.planted_campaigns import Planting, chosen_defects
from difftest.jobs.proof.planted_summary import Planted, planted_summary
from difftest.jobs.proof.rates import passed
from difftest.jobs.proof.selftest_cases import DrawnCases
from difftest.jobs.proof.sweep import detection_curve
from difftest.jobs.screen.output import print_json
from difftest.records.disk import replace_file, writing

if TYPE_CHECKING:
    from workers.faults import VacuousFault

NULL_CASES = 20
PLANTED_CASES = 150
PLANTED_DEADLINES = 0.5
"""The deadline of runs with a defect, in usual deadlines: many defects hang, each until the deadline."""

GREEN_DEADLINE_SECONDS = 10.0
"""The deadline of runs with a fault of `--green`, which are of one small case."""

NULL_DEADLINES = 4.0
"""The deadline of correct runs, in usual deadlines: being slow on a busy machine must not look hung."""


@dataclass(frozen=True, kw_only=True)
class SelftestRequest:
    """What the command was given; `defects` are comma-separated, empty for all.

    `part` is None for the planted defects and the null campaign. Empty `backends` are the usual ones.
    """

    part: Literal["planted", "null", "green"] | None
    cases: Annotated[
        int | None,
        option(
            type=click.IntRange(min=1),
            help="How many cases the null campaign runs, and the most for each defect.  "
            f"[default: {NULL_CASES} and {PLANTED_CASES}]",
        ),
    ]
    after: Annotated[
        int,
        option(
            type=click.IntRange(min=0),
            metavar="N",
            help="Skip the first N cases of the null campaign, which an interrupted one has checked.",
        ),
    ] = 0
    seed: Seed
    paths: Annotated[
        tuple[str, ...],
        option(
            type=Names("generators.paths"),
            default=(),
            help="The parallelism paths of the null campaign.  [default: all but operators]",
        ),
    ]
    backends: ChosenBackends
    max_world_size: MaxWorldSize
    inputs: Inputs = 1
    defects: Annotated[str, option(help="Only these planted defects, comma-separated.")] = ""
    workers: Workers
    load: Load
    out: Annotated[
        Path | None,
        option(
            type=click.Path(path_type=Path, file_okay=False),
            help="The folder for selftest.json and selftest.html.",
        ),
    ]
    as_json: Json

    @property
    def drawn(self) -> DrawnCases:
        """The cases of its seed."""
        return DrawnCases(
            seed=self.seed, paths=self.paths, max_world_size=self.max_world_size, inputs=self.inputs
        )


GROUP = Group.ASK


@click.command("selftest")
@click.option("--planted", "part", flag_value="planted", help="Only the planted defects.")
@click.option("--null", "part", flag_value="null", help="Only the null campaign.")
@click.option(
    "--green",
    "part",
    flag_value="green",
    help="Only campaigns with a defect that must keep the result from being green.",
)
@options(SelftestRequest)
def command(**options: Any) -> int:  # noqa: ANN401  click hands over what the decorators declare
    """Measure detection, blame and false findings, or with --green whether a green result can be trusted.

    Exit status 1 when a rate misses its limit, or a campaign that must fail ends in 0.
    """
    request = SelftestRequest(**options)
    try:
        result, stopped = _measure(request)
    except StoppedError as stop:
        click.echo(f"{stop}; the same command starts over", err=True)
        return stop.status
    if request.out:
        _write(request.out, result)
    if request.as_json:
        print_json(result)
    else:
        _print(result)
    if stopped:
        click.echo(stopped, err=True)
        return stopped.status
    return int(not passed(result))


def _measure(request: SelftestRequest) -> tuple[dict[str, Any], StoppedError | None]:
    """The JSON object of the requested parts, and what ended the null campaign early."""
    from workers.backends import candidates, references
    from workers.deadlines import DEADLINE_SECONDS

    result: dict[str, Any] = {"seed": request.seed, "load": request.load}
    stopped: StoppedError | None = None
    green = request.part == "green"
    chosen = [] if green else chosen_defects(request.defects, request.backends)
    vacuous = chosen_vacuous(request.defects) if green else []
    deadline = NULL_DEADLINES * DEADLINE_SECONDS
    with (
        on_cluster(
            candidates() | candidates(request.backends) | references(),
            workers=request.workers,
            required=(),
            deadline=deadline,
            working="selftest",
        ) as cluster,
        # Begins after Ray has started, which gives its processes 30 seconds for it.
        busy(request.load),
    ):
        if green:
            result["green"] = _green(cluster, vacuous)
        if request.part in {None, "planted"}:
            planting = _planting(request, cluster, PLANTED_DEADLINES * DEADLINE_SECONDS)
            with ThreadPoolExecutor(cluster.workers) as threads:
                result["planted"] = planted_summary(_watched(threads.map(planting.find, chosen)))
        if request.part in {None, "null"}:
            measured, stopped = _null(request, cluster)
            result |= measured
        if not stopped:
            first = next(request.drawn.cases(1))
            result["environment"] = dict(cluster.execute(first, ORACLE, {}).environment)
    return result, stopped


def _green(cluster: Cluster, faults: list["VacuousFault"]) -> dict[str, Any]:
    """The entry of the campaigns with `faults`; each is printed on standard error when it ends."""
    execute = cluster.execute_within(GREEN_DEADLINE_SECONDS)
    campaigns = GreenCampaigns(cluster=cluster, execute=execute, correct=Memo(cluster.execute))
    endings = []
    for ending in campaigns.endings(faults):
        endings.append(ending)
        click.echo(f"{ending.fault or 'no fault'}: status {ending.status}, {ending.reason}", err=True)
    return green_summary(endings)


def _planting(request: SelftestRequest, cluster: Cluster, deadline: float) -> Planting:
    most = request.cases or PLANTED_CASES
    return Planting(
        backends=cluster.backends,
        cases=partial(request.drawn.showing, most),
        most=most,
        execute=cluster.execute_within(deadline),
        correct=Memo(cluster.execute),
    )


def _null(request: SelftestRequest, cluster: Cluster) -> tuple[dict[str, Any], StoppedError | None]:
    """The null campaign's entries of the JSON object, of the cases that had been checked when it stopped."""
    usual = {name: backend for name, backend in cluster.backends.items() if not backend.PROFILE.runs_twins}
    backends = {name: cluster.backends[name] for name in request.backends} or usual
    campaign = NullCampaign(
        execute=cluster.execute,
        backends=backends,
        ledger=read_ledger(),
        execute_group=cluster.execute_group,
    )
    drawn = request.drawn.numbered(request.cases or NULL_CASES, request.after)
    if all(backend.PROFILE.runs_twins for backend in backends.values()):
        drawn = ((number, twin(case)) for number, case in drawn)
    groups = grouped(drawn)
    checks, stopped = check_all(campaign, groups, cluster.workers, request.after)
    rows = list(itertools.chain.from_iterable(check.rows for check in checks))
    errors = itertools.chain.from_iterable(check.errors for check in checks)
    units = [name for name, backend in backends.items() if backend.PROFILE.cost_unit]
    unchecked = tuple(check.unchecked for check in checks if check.unchecked)
    return {"null": null_summary(rows, units, unchecked), "sweep": detection_curve(errors)}, stopped


def _watched(results: Iterable[Planted]) -> list[Planted]:
    """The results; each is printed on standard error when it comes."""
    finished = []
    for result in results:
        finished.append(result)
        detected = f"found after {result.cases} cases and {result.seconds:.0f} s, {result.blame}"
        outcome = detected if result.detected else f"not found in {result.cases} cases"
        click.echo(f"{result.defect} on {result.backend}: {outcome}", err=True)
    return finished


def _write(out: Path, result: Mapping[str, Any]) -> None:
    from reports.page import selftest

    out.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(result, enc_hook=str))
    with writing(out):
        replace_file(out / "selftest.json", text)
        replace_file(out / selftest.FILENAME, selftest.render(result))


def _print(result: Mapping[str, Any]) -> None:
    if green := result.get("green"):
        click.echo(f"green: {green['noticed']} of {green['faults']} faults end in another status than 0")
        for row in green["by_fault"]:
            click.echo(f"  {row['fault'] or 'no fault':<20} {row['status']}  {row['reason']}")
    if planted := result.get("planted"):
        detected, blamed = planted["detected"], planted["blamed"]
        click.echo(
            f"planted: {detected} of {planted['defects']} found, {blamed} of these blamed correctly; "
            f"detection {planted['detection_rate']:.1%}, blame {planted['blame_rate']:.1%}"
        )
        identity = planted["fingerprints"]
        if identity["purity"] is not None:
            purity, completeness = identity["purity"], identity["completeness"]
            click.echo(f"  fingerprints: purity {purity:.1%}, completeness {completeness:.1%}")
    if summary := result.get("null"):
        _print_null(summary)
    for size, share in result.get("sweep", {}).items():
        click.echo(f"  errors of {size:g} x the rounding noise: {share:.0%} detected")


def _print_null(summary: Mapping[str, Any]) -> None:
    cases, runs = summary["cases"], summary["runs"]
    click.echo(f"null: {summary['false_findings']} false findings in {cases} cases ({runs} runs)")
    if summary["unchecked"]:
        click.echo(f"  {len(summary['unchecked'])} further cases were not checked")
    click.echo(f"  {sum(summary['upstream_faults'].values())} runs showed faults of the framework")
    if summary["oracle_cost"]:
        cost = f"{summary['oracle_cost']:.2f} of the XLA run (median)"
        click.echo(f"  the float64 reference with its noise floor costs {cost}")
    click.echo(f"  greatest error of a correct run: {summary['greatest_ratio']:.1f} x the rounding noise")
    for row in summary["by_false_finding"]:
        click.echo(f"  {row['case']} on {row['backend']}: {'; '.join(row['false'])}")

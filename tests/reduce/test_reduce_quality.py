"""How well planted defects are reduced with real workers.

The tests check the size of the reduced case, the number of runs, and that the case shows the same defect. By
default a few defects of every kind are reduced. `DIFFTEST_DEFECTS` names others, comma-separated as
`defect:backend`, or `all`.
"""

import itertools
import os
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from installed_packages import needs

from difftest.campaign.again import AGREES, UNDECIDED, first_fingerprint, rerun, shows
from difftest.campaign.campaign import ORACLE, Campaign
from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus
from difftest.reduce.search import Reduced, reduce
from generators.cases import case_at
from workers.faults import VARIABLE, PlantedFault, all_faults
from workers.gpus import gpu_count

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.xla]

MEDIAN_MOST = 30
DEADLINE_SECONDS = 30.0
"""The deadline of a run; a planted hang takes as long in every evaluation."""
CASES = 60
SEED = 0
FEW = (
    "sum_for_mean:torch_ddp",
    "updated_twice:torch_ddp",
    "shard_rows_swapped:xla_spmd",
    "momentum_not_sharded_alike:torch_fsdp",
    "mask_off_by_one:xla_spmd",
    "exception:torch_dtensor",
)


RANKS = {"backend fault": 1, "sharding fault": 2}
"""The fewest ranks that a defect needs, by its blame: one, or two if a rank needs another."""

FOUR_RANKS = (
    "collective_over_the_other_axis on torch_ddp",
    "collective_over_the_other_axis on xla_replica",
    "mesh_axes_swapped on torch_tp",
    "remainder_dropped on torch_dtensor",  # shows another fingerprint on one axis
)
"""Defects that need two mesh axes of two ranks."""

STEPS = {"momentum_not_sharded_alike": 2, "optimizer_state_lost": 2, "recompile": 4, "stale_bucket": 2}
"""Defects that need more than one step: they spoil a step's state, or show once the graphs have settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One defect, reduced."""

    name: str
    fault: PlantedFault
    case: Case
    fingerprint: str
    reduced: Reduced
    own: bool
    """Whether the reduced case is correct without the defect, so that it does not show another fault."""


def chosen() -> list[tuple[str, str]]:
    wanted = os.environ.get("DIFFTEST_DEFECTS", "")
    if wanted == "all":
        return [
            (fault.name, backend)
            for fault in all_faults().values()
            if fault.least_gpus <= gpu_count() and not fault.paths
            for backend in fault.backends
        ]
    pairs = [tuple(part.strip().split(":")) for part in wanted.split(",") if part.strip()] or [
        tuple(part.split(":")) for part in FEW
    ]
    return [(name, backend) for name, backend in pairs]


def planted(campaign: Campaign, defect: str, backend: str) -> Planted | None:
    """Reduce the first generated case that shows a defect; None if none of `CASES` shows it."""
    fault = all_faults()[defect]

    def execute(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
        return campaign.execute(case, name, {**options, VARIABLE: defect} if name == backend else options)

    spoiled = Campaign(
        name=defect,
        backends=campaign.backends,
        execute=execute,
        corpus=campaign.corpus,
        workers=campaign.workers,
    )
    for case in itertools.islice(_reaching(fault.reaches, campaign, backend), CASES):
        fingerprint = first_fingerprint(rerun(spoiled, case, backend))
        if (
            fingerprint not in (AGREES, UNDECIDED)
            and first_fingerprint(rerun(campaign, case, backend)) != fingerprint
        ):
            reduced = reduce(
                case,
                shows(spoiled, backend, fingerprint),
                possible=lambda simpler: campaign.backends[backend].unsupported(simpler) is None,
                parallel=campaign.workers,
            )
            if reduced is None:  # not reproduced: the busy machine had ended the first run
                continue
            own = first_fingerprint(rerun(campaign, reduced.case, backend)) != fingerprint
            return Planted(
                name=f"{defect} on {backend}",
                fault=fault,
                case=case,
                fingerprint=fingerprint,
                reduced=reduced,
                own=own,
            )
    return None


def _reaching(reaches: object, campaign: Campaign, backend: str) -> Iterator[Case]:
    cases = (case_at(SEED, index) for index in range(10 * CASES))
    unsupported = campaign.backends[backend].unsupported
    return (case for case in cases if reaches(case) and not unsupported(case))  # type: ignore[operator]


def report_of(one: Planted) -> str:
    case, reduced = one.reduced.case, one.reduced
    layers = " ".join(type(layer).__name__ for _, layer in walk(case.model.layers))
    before = len(list(walk(one.case.model.layers)))
    sizes = f"{one.case.world_size} -> {case.world_size} ranks, {before} -> {layers}"
    what = f"{sizes}, {case.training.steps} steps; {reduced.evaluations} runs"
    fault = "its own" if one.own else "ANOTHER FAULT"
    return f"{one.name}: {what}; {fault}; needs {', '.join(reduced.conditions)}"


def test_planted_defects_reduce_to_few_ranks_layers_and_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    from workers.backends import candidates  # noqa: PLC0415
    from workers.cluster import dispatch, start  # noqa: PLC0415

    results: list[Planted] = []
    pairs = chosen()
    with start.cluster(None, None) as workers:
        pool = dispatch.Pool(workers, deadline=DEADLINE_SECONDS)
        pool.require(ORACLE)
        campaign = Campaign(
            name="quality",
            backends=candidates(()),
            execute=pool.execute,
            corpus=Corpus(tmp_path),
            workers=workers,
        )
        for defect, backend in pairs:
            one = planted(campaign, defect, backend)
            with capsys.disabled():
                missing = f"{defect} on {backend}: not shown by {CASES} cases"
                print(report_of(one) if one else missing, flush=True)  # noqa: T201
            results += [one] if one else []
    median = statistics.median(result.reduced.evaluations for result in results)
    with capsys.disabled():
        print(f"{len(results)} of {len(pairs)} defects reduced; median {median:g} runs")  # noqa: T201
    assert len(results) >= 0.9 * len(pairs)
    assert median <= MEDIAN_MOST
    assert [result.name for result in results if not result.own] == []
    for result in results:
        case = result.reduced.case
        assert case.world_size == (4 if result.name in FOUR_RANKS else RANKS[result.fault.blame]), report_of(
            result
        )  # with fewer it is another fault
        assert len(case.model.layers) <= 2, report_of(result)
        assert case.training.steps <= STEPS.get(result.fault.name, 1), report_of(result)

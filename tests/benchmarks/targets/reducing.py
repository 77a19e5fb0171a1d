"""How much faster two runs at a time reduce a case than one.

The first case of a seed that shows a planted fault is reduced as `difftest minimize` does it, for a
few faults, without Ray. Two at a time may run a few cases more. It takes four minutes.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.targets import Figure
from benchmarks.targets._campaign import warm
from difftest.campaign.again import first_fingerprint, rerun, shows
from difftest.campaign.campaign import Campaign
from difftest.cases.case import Case
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus
from difftest.reduce.search import Reduced, reduce
from generators.cases import case_at
from workers import backends, faults
from workers.isolate import sandbox

PLANTED = {
    "sum_for_mean": "torch_ddp",
    "momentum_not_sharded_alike": "torch_fsdp",
    "exception": "torch_dtensor",
    "shard_rows_swapped": "xla_spmd",
    "mask_off_by_one": "xla_spmd",
}
SEED, CASES = 0, 60
MOST = 0.65
"""The wall time with two at a time, in units of that with one."""


def figures() -> Iterator[Figure]:
    """Over all faults, and the median number of cases that a search runs with one at a time."""
    warm()
    seconds, evaluations = {1: 0.0, 2: 0.0}, list[int]()
    for defect, backend in PLANTED.items():
        campaign = _campaign(defect, backend)
        case, fingerprint = _showing(campaign, defect, backend)
        for parallel in seconds:
            began = time.monotonic()
            reduced = _reduced(campaign, case, backend, fingerprint, parallel)
            seconds[parallel] += time.monotonic() - began
            evaluations += [reduced.evaluations] if parallel == 1 else []
    words = f"reduction of {len(PLANTED)} faults, median {statistics.median(evaluations):g} runs"
    share = seconds[2] / seconds[1]
    yield Figure(
        f"{words}: one at a time / two at a time ({share:.2f} of the time)", 1 / share, round(1 / MOST, 2)
    )


def _campaign(defect: str, planted: str) -> Campaign:
    def execute(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
        spoiled = {faults.VARIABLE: defect} if name == planted else {}
        return sandbox.run(case, name, options={**options, **spoiled})

    return Campaign(
        name=defect,
        backends=backends.candidates(),
        execute=execute,
        corpus=Corpus(Path(tempfile.gettempdir()) / "unused"),
        workers=2,
    )


def _showing(campaign: Campaign, defect: str, backend: str) -> tuple[Case, str]:
    """The first case that shows a divergence with the fault, and its fingerprint."""
    reaches, unsupported = faults.all_faults()[defect].reaches, campaign.backends[backend].unsupported
    for index in range(CASES):
        case = case_at(SEED, index)
        if not reaches(case) or unsupported(case):
            continue
        comparison = rerun(campaign, case, backend)
        if comparison.divergences:
            return case, first_fingerprint(comparison)
    msg = f"{defect} on {backend} is shown by none of {CASES} cases of seed {SEED}"
    raise RuntimeError(msg)


def _reduced(campaign: Campaign, case: Case, backend: str, fingerprint: str, parallel: int) -> Reduced:
    reduced = reduce(
        case,
        shows(campaign, backend, fingerprint),
        possible=lambda simpler: campaign.backends[backend].unsupported(simpler) is None,
        parallel=parallel,
    )
    if reduced is None:
        msg = f"case {case.id} on {backend} did not show {fingerprint} again"
        raise RuntimeError(msg)
    return reduced

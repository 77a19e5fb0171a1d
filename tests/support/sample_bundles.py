"""Bundles of three cases, recorded on backends that are right or wrong as requested."""

from pathlib import Path

from machines import WRONG
from samples import a_case, candidate, oracle

from difftest.cases.case import Case
from difftest.judge.outcome import Outcome
from difftest.records.bundle import BundleWriter
from difftest.records.bundle_lines import EVIDENCE

CASES = tuple(a_case(seed=seed) for seed in range(3))
SIDES = {"oracle": "oracle", "ddp": "torch", "spmd": "xla", "second": "xla"}
FRAMEWORKS = {"oracle": "", "ddp": "torch", "spmd": "torch_xla", "second": "torchax"}
SPMD = ("spmd",)


def answer(case: Case, backend: str, wrong: tuple[str, ...] = SPMD) -> Outcome:
    """The outcome of a run; the backends in `wrong` compute wrongly wherever anything is sharded."""
    if backend == "oracle":
        return oracle(case)
    return candidate(case, WRONG if backend in wrong and case.world_size > 1 else None)


def recorded(root: Path, *backends: str, repeats: int = 5, wrong: tuple[str, ...] = SPMD) -> Path:
    """A bundle of the oracle and these backends, each run `repeats` times, as it is and on one device."""
    recorder = BundleWriter(root)
    for index, case in enumerate(CASES):
        for number, it in ((index, case), (EVIDENCE, case.unsharded())):
            for backend in ("oracle", *backends * repeats):
                who = (backend, SIDES[backend], FRAMEWORKS[backend])
                recorder.keep(number, it, who, {}, answer(it, backend, wrong))
                recorder.keep(number, it, who, {"DIFFTEST_SAMPLES": "128"}, answer(it, backend, wrong))
    return root

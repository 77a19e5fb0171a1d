"""Precision settings and the order of sums, which make correct runs differ: most are known benign causes."""

from collections.abc import Iterator

import msgspec

from difftest.cases.flags import SAME_PRECISION
from difftest.findings.ablations import Ablation, Baseline

ORDER = 50
NO_FAST_MATH = "--xla_cpu_enable_fast_math=false --xla_cpu_enable_fast_min_max=false"


def ablations(baseline: Baseline) -> Iterator[Ablation]:
    """Those of the run's side."""
    return _of_xla(baseline) if baseline.side == "xla" else _of_torch(baseline)


def _of_xla(baseline: Baseline) -> Iterator[Ablation]:
    forbidden = "no excess precision is allowed"
    if SAME_PRECISION in baseline.flags.split():
        yield baseline.impossible(forbidden, "every run forbids it")
    else:
        yield baseline.with_flags(
            forbidden, SAME_PRECISION, "XLA keeps float32 between operators of a half type"
        )
    yield baseline.with_flags(
        "fast math is off", NO_FAST_MATH, "fast math reorders sums and takes NaN for granted"
    )
    yield baseline.changed(
        "matrices are multiplied in default precision", DIFFTEST_MATMUL_PRECISION="default"
    )


def _of_torch(baseline: Baseline) -> Iterator[Ablation]:
    yield baseline.changed(
        "an operator has two threads", benign="sums are added in another order", DIFFTEST_THREADS="2"
    )
    yield baseline.changed(
        "oneDNN's kernels are off", benign="oneDNN's kernels round otherwise", DIFFTEST_MKLDNN="0"
    )
    if baseline.case.model.flash_attentions:
        yield baseline.changed(
            "attention uses the math kernel", case=msgspec.structs.replace(baseline.case, sdpa="math")
        )

"""Precision settings and the order of sums: what makes two correct runs differ, so that most of these are known benign causes."""

from collections.abc import Iterator

import msgspec

from difftest.cases.flags import SAME_PRECISION
from difftest.findings.ablations import Ablation, Asked

ORDER = 50
NO_FAST_MATH = "--xla_cpu_enable_fast_math=false --xla_cpu_enable_fast_min_max=false"


def ablations(asked: Asked) -> Iterator[Ablation]:
    """Of the side that is asked."""
    return _of_xla(asked) if asked.side == "xla" else _of_torch(asked)


def _of_xla(asked: Asked) -> Iterator[Ablation]:
    forbidden = "no excess precision is allowed"
    if SAME_PRECISION in asked.flags.split():
        yield asked.impossible(forbidden, "every run forbids it")
    else:
        yield asked.with_flags(
            forbidden, SAME_PRECISION, "XLA keeps float32 between operators of a half type"
        )
    yield asked.with_flags(
        "fast math is off", NO_FAST_MATH, "fast math reorders sums and takes NaN for granted"
    )
    yield asked.changed("matrices are multiplied in default precision", DIFFTEST_MATMUL_PRECISION="default")


def _of_torch(asked: Asked) -> Iterator[Ablation]:
    yield asked.changed(
        "an operator has two threads", benign="sums are added in another order", DIFFTEST_THREADS="2"
    )
    yield asked.changed(
        "oneDNN's kernels are off", benign="oneDNN's kernels round otherwise", DIFFTEST_MKLDNN="0"
    )
    if asked.case.model.flash_attentions:
        yield asked.changed(
            "attention uses the math kernel", case=msgspec.structs.replace(asked.case, sdpa="math")
        )

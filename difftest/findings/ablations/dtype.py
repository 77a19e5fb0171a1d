"""Another dtype: a fault in all of them is wrong logic, a fault in one is its own kernel or rounding."""

from collections.abc import Iterator
from typing import get_args

import msgspec

from difftest.cases.case import DType
from difftest.findings.ablations import Ablation, Baseline

ORDER = 20


def ablations(baseline: Baseline) -> Iterator[Ablation]:
    """The same weights and batches, rounded to the other dtype."""
    others = (dtype for dtype in get_args(DType) if dtype != baseline.case.dtype)
    return (
        baseline.changed(f"the dtype is {dtype}", case=msgspec.structs.replace(baseline.case, dtype=dtype))
        for dtype in others
    )

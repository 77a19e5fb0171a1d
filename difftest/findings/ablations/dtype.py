"""Another dtype: wrong in all of them is wrong logic, wrong in one is that type's own kernel or rounding."""

from collections.abc import Iterator
from typing import get_args

import msgspec

from difftest.cases.case import DType
from difftest.findings.ablations import Ablation, Asked

ORDER = 20


def ablations(asked: Asked) -> Iterator[Ablation]:
    """The same weights and batches, rounded to the other type."""
    others = (dtype for dtype in get_args(DType) if dtype != asked.case.dtype)
    return (
        asked.changed(f"the dtype is {dtype}", case=msgspec.structs.replace(asked.case, dtype=dtype))
        for dtype in others
    )

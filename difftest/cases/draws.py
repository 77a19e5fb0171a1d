"""How numbers are drawn from a case's seed, and rounded to what a dtype holds."""

import hashlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from difftest.cases.case import Case, DType

Floats: TypeAlias = npt.NDArray[np.float64]


def round_to(dtype: DType, values: Floats) -> Floats:
    """`values` rounded to the nearest of `dtype`, ties to even, as float64.

    Rounding to bfloat16 goes by way of float32, as torch does it.

    Values beyond the largest of `dtype` become infinite; NaN stays NaN.
    """
    with np.errstate(over="ignore"):
        if dtype != "bfloat16":
            return values.astype(dtype).astype(np.float64)
        bits = values.astype(np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(values), np.nan, bits.view(np.float32).astype(np.float64))


def random(case: Case, purpose: str) -> np.random.Generator:
    """The random numbers of one `purpose`, which no other purpose shares."""
    seed = hashlib.sha256(f"{case.seed} {purpose}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(seed[:16])))

"""Where the oracle is finite, so is the candidate."""

from collections.abc import Iterator

import numpy as np

from difftest.judge.divergence import Divergence
from difftest.judge.measured import Pair
from difftest.judge.outcome import Symptom

ORDER = 3


def check(seen: Pair) -> Iterator[Divergence]:
    """One divergence a tensor that holds NaN or infinity on some rank."""
    for key, tensor in seen.tensors():
        bad = {rank: int((~np.isfinite(piece)).sum()) for rank, piece in tensor.pieces.items()}
        ranks = [rank for rank, count in bad.items() if count]
        if ranks:
            yield seen.diverges(
                "finite",
                Symptom.NONFINITE,
                key,
                f"{sum(bad.values())} values are not finite, on ranks {ranks}",
            )

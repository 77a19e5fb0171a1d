"""Where the oracle is finite, so is the candidate."""

from collections.abc import Iterator, Mapping

import numpy as np

from difftest.judge.checks import ScriptKind
from difftest.judge.divergence import Divergence
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Symptom

ORDER = 3
USES_NUMBERS = True
COMPARES_RANKS = False
TAKES_TWO_RUNS = False
RUN_FAILED = False
LACKS_CAPABILITY = False
SCRIPTS: Mapping[Symptom, ScriptKind] = {Symptom.NONFINITE: "nonfinite"}


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each tensor that holds NaN or infinity on some rank."""
    for key, tensor in run.tensors():
        bad = {rank: int((~np.isfinite(piece)).sum()) for rank, piece in tensor.pieces.items()}
        ranks = [rank for rank, count in bad.items() if count]
        if ranks:
            yield run.tensor_divergence(
                "finite",
                Symptom.NONFINITE,
                key,
                f"{sum(bad.values())} values are not finite, on ranks {ranks}",
            )

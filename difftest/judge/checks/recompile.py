"""A program whose shapes do not change is compiled for its first steps and then never again.

XLA's lazy tensors settle with the second step: what the first leaves behind (updated parameters, optimizer state) enters the next as plain
inputs. `DistributedDataParallel` puts its buckets in another order after the first step, and settles with the third. A new graph at every
step trains as well, and a hundred times slower.
"""

from collections.abc import Iterator

from difftest.judge.divergence import Divergence
from difftest.judge.measured import Pair
from difftest.judge.outcome import Failure, Stage, Symptom

ORDER = 4
SETTLED = 3
"""The first step, from 0, that finds all its graphs compiled."""


def check(seen: Pair) -> Iterator[Divergence]:
    """One divergence at the first settled step that compiles. `events["graphs"]` counts graphs until the end of each step; XLA has them."""
    graphs = [] if isinstance(seen.actual, Failure) else list(seen.actual.events.get("graphs", ()))
    for step in range(SETTLED, len(graphs)):
        if graphs[step] > graphs[step - 1]:
            yield seen.divergence(
                check="recompile",
                symptom=Symptom.MISMATCH,
                stage=Stage.UPDATE,
                step=step,
                cause="compiles at a settled step",
                detail=f"step {step}: {graphs[step] - graphs[step - 1]} new graphs; compiled until the end of each step: {graphs}",
            )
            return

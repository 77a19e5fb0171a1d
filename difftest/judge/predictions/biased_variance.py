"""A running variance is updated with the biased variance: (n - 1) / n of the unbiased one of n values."""

import numpy as np

from difftest.cases import numbers
from difftest.cases.layers import walk
from difftest.cases.layers.building_block import BuildingBlock
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.noise import THRESHOLD
from difftest.judge.stage import Stage

MOMENTUM = 0.1
"""That of batch norm where none is given."""

CLOSE = 0.02
"""How far the number of values that fits best may be from a whole one, relatively."""


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether all that the batches added to the initial variance is too small by one part in n."""
    step, stage, name = at
    if stage is not Stage.UPDATE or not name.endswith("running_var"):
        return False
    truth, floors, actual = run.beside(at)
    value = actual.full(run.case.layout.mesh)
    kept = (1.0 - _momentum(run, name)) ** (run.case.training.accumulation * (step + 1))
    added = truth - kept * numbers.weights(run.case).get(name, np.ones(truth.shape))
    if not np.isfinite(value).all() or not added.any():
        return False
    lacking = float((added * (truth - value)).sum() / (added * added).sum())
    fits = np.abs(value - (truth - lacking * added)) <= THRESHOLD * floors
    count = 1.0 / lacking if lacking > 0.0 else 0.0
    return bool(fits.all()) and count > 1.0 and abs(count - round(count)) <= CLOSE * count


def _momentum(run: MeasuredRun, name: str) -> float:
    """That of the norm with the buffer `name`: an argument of its block, or batch norm's own."""
    block = next((layer for path, layer in walk(run.case.model.layers) if name.startswith(f"{path}.")), None)
    arguments = block.arguments if isinstance(block, BuildingBlock) else {}
    return float(arguments.get("momentum", MOMENTUM))

"""A mean loss is the mean of the ranks' means, also where the ranks have unequal numbers of rows."""

import numpy as np

from difftest.cases import numbers
from difftest.cases.layout import local_slices
from difftest.cases.numbers import IGNORE_INDEX
from difftest.judge.measured import Floats, Key, MeasuredRun
from difftest.judge.noise import THRESHOLD
from difftest.judge.outcome import Array
from difftest.judge.stage import Stage


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether the loss is what the oracle's outputs give with a mean of means."""
    step, stage, name = at
    case = run.case
    if case.model.own or case.model.is_program or (stage, name) != (Stage.FORWARD, "loss"):
        return False
    batch, total = numbers.batch(case, step), 0.0
    rows = len(batch.targets) // case.training.accumulation
    for part in range(case.training.accumulation):
        output, _ = run.truth((step, stage, f"output.{part}" if part else "output"))
        targets = batch.targets[part * rows : (part + 1) * rows]
        losses = _losses(case.training.loss, np.asarray(output, np.float64), targets)
        places = [
            local_slices(losses.shape, case.layout.batch, case.layout.mesh, rank)
            for rank in range(case.world_size)
        ]
        if not all(losses[place].size for place in places):
            return False
        total += float(np.mean([losses[place].mean() for place in places])) * losses.size / batch.count
    truth, floors, actual = run.beside(at)
    value = float(actual.full(case.layout.mesh).item())
    return abs(value - total) <= THRESHOLD * float(floors.item()) < abs(total - float(truth.item()))


def _losses(kind: str, output: Floats, targets: Array) -> Floats:
    """The loss of every value, or of every row; 0 of those that are ignored."""
    if kind == "mse":
        return np.asarray((output - targets) ** 2)
    shifted = output - output.max(axis=-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    valid = targets != IGNORE_INDEX
    chosen = np.take_along_axis(logs, np.where(valid, targets, 0)[..., None], -1)[..., 0]
    return np.asarray(-chosen * valid)

"""A mean loss is the mean of the ranks' means, also where the ranks have unequal numbers of rows."""

import numpy as np

from difftest.cases import numbers
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.predictions import _outputs
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
        output, _ = run.truth((step, stage, _outputs.named(part)))
        targets = batch.targets[part * rows : (part + 1) * rows]
        losses = _outputs.losses(case.training.loss, np.asarray(output, np.float64), targets)
        shards = _outputs.shards(run, losses)
        if not all(one.size for one in shards):
            return False
        total += float(np.mean([one.mean() for one in shards])) * losses.size / batch.count
    return _outputs.is_near(run, at, np.array(total))

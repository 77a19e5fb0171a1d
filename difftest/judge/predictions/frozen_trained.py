"""What is not trained was trained: an update moved a frozen parameter.

Where gradients are clipped, its own counts in the norm, and the same update is wrong elsewhere too.
"""

import numpy as np

from difftest.cases import numbers
from difftest.cases.feature import typed
from difftest.cases.features import frozen, frozen_layers, unfreezing
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.stage import Stage


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether the tensor is such a parameter and has moved, or under clipping another one of its update."""
    step, stage, tensor = at
    kinds = frozen.Options | frozen_layers.Options | unfreezing.Options
    features = [one for one in typed(run.case.training_features) if isinstance(one, kinds)]
    if not features or stage is not Stage.UPDATE:
        return False
    initial = numbers.weights(run.case)
    watched = initial if run.case.training.clip_norm is not None else {tensor}
    keys = [(step, stage, name) for name in watched if any(one.holds(name, step) for one in features)]
    return any(
        not np.array_equal(run.beside(key)[2].full(run.case.layout.mesh), initial[key[2]])
        for key in keys
        if key in run.measured
    )

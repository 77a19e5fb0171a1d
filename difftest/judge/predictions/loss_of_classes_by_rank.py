"""A mean loss of a program's classes is the mean of the ranks' means, each over the targets of a rank.

Targets that are ignored, or have other weights, are then divided by the wrong sum, although the ranks share
rows evenly.
"""

import numpy as np

from difftest.cases import numbers
from difftest.cases.layout import local_slices
from difftest.judge.measured import Floats, Key, MeasuredRun
from difftest.judge.noise import THRESHOLD
from difftest.judge.predictions import _calls, _outputs
from difftest.judge.stage import Stage

LOSSES = ("nn.functional.nll_loss", "nn.functional.cross_entropy")
IGNORED = -100.0
"""The target that is ignored where none is named."""


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether the result is the mean of means over the pieces of rows that the layout cuts."""
    call = _calls.call_at(run, at)
    if at[1] is not Stage.FORWARD or not call or call.function not in LOSSES:
        return False
    truth, floors, value = _calls.compared(run, at)
    initial = numbers.weights(run.case)
    scores, targets = (initial.get(f"{call.path}.{name}") for name in ("input", "target"))
    plain = call.option("reduction") in {None, "mean"} and not call.number("label_smoothing", 0.0)
    if truth.size != 1 or scores is None or targets is None or not plain:
        return False
    if targets.shape == scores.shape or scores.ndim < 2:  # noqa: PLR2004  probabilities; one row is not cut
        return False
    means = _means(run, call, np.asarray(scores, np.float64), targets.astype(np.int64))
    scale = _calls.RELATIVE * _calls.roundoff(run) * abs(means)
    return bool(np.abs(value - means) <= max(float(floors.max()) * THRESHOLD, scale))


def _means(run: MeasuredRun, call: "_calls.Call", scores: Floats, targets: Floats) -> float:
    """The mean over the ranks; NaN where the classes are cut."""
    layout, name = run.case.layout, f"{call.path}.input"
    logs = scores
    if call.function == LOSSES[1]:
        logs = np.moveaxis(_outputs.log_softmax(np.moveaxis(scores, 1, -1)), -1, 1)
    weights = numbers.weights(run.case).get(f"{call.path}.weight", np.ones(scores.shape[1]))
    counted = targets != call.number("ignore_index", IGNORED)
    classes = np.where(counted, targets, 0)
    shares = np.asarray(weights, np.float64)[classes] * counted
    losses = -np.take_along_axis(logs, np.expand_dims(classes, 1), 1)[:, 0] * shares
    means = []
    for rank in range(layout.mesh.world_size):
        rows, cut, *others = local_slices(scores.shape, layout.parameters[name], layout.mesh, rank)
        if cut.stop - cut.start < scores.shape[1]:
            return float("nan")
        part = (rows, *others)
        with np.errstate(invalid="ignore"):
            means.append(losses[part].sum() / shares[part].sum())
    return float(np.mean(means))

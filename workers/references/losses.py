"""The losses by their definitions: sums over targets that count, over the number of these."""

from difftest.cases.case import Case
from difftest.cases.numbers import IGNORE_INDEX
from workers.references.layers import Array, Context, log_softmax

LOSSES = ("mse", "cross_entropy")


def computed(case: Case, output: Array, targets: Array, count: float, context: Context) -> Array:
    """The loss of one part of a batch, of which all parts have `count` targets together.

    Cross-entropy is the mean of the negative logarithm of the softmax at the target's class; classes 0, 1, 2
    and so on weigh 1, 1.5, 2 and again, where the case weighs them.
    """
    np = context.numpy
    if case.training.loss == "mse":
        return ((output - targets) ** 2).sum() / count
    counts = targets != IGNORE_INDEX
    classes = np.where(counts, targets, 0)
    at_target = np.take_along_axis(log_softmax(output, context), classes[..., None], axis=-1)[..., 0]
    weights = 1 + classes % 3 / 2 if case.cut_by.weighted else 1.0
    return -(np.where(counts, at_target, 0.0) * weights).sum() / count

"""The argument `maximize` of an optimizer.

Equal to descent along negated gradients.
"""

from difftest.cases.features.maximize import Options
from workers.training.features import Hooks, TrainingProgress, nothing

hooks = nothing  # beside its argument


def equal(_options: Options) -> Hooks:
    """Gradients are negated after they were read and clipped."""
    return Hooks(inside=_negate)


def _negate(progress: TrainingProgress) -> None:
    for parameter in progress.module.parameters():
        if parameter.grad is not None:
            parameter.grad.neg_()

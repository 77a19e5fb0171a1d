"""The argument `maximize` of an optimizer.

Equal to descent along negated gradients.
"""

from workers.training.features import Hooks, Options, TrainingProgress


def hooks(_options: Options) -> Hooks:
    """As torch's argument of that name."""
    return Hooks(arguments={"maximize": True})


def equal(_options: Options) -> Hooks:
    """Gradients are negated after they were read and clipped."""
    return Hooks(inside=_negate)


def _negate(progress: TrainingProgress) -> None:
    for parameter in progress.module.parameters():
        if parameter.grad is not None:
            parameter.grad.neg_()

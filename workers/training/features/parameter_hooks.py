"""Hooks of parameters, which halve their gradients.

Equal to halving gradients when they are complete. Halves are exact, and so are their sums.
"""

from torch import Tensor

from difftest.cases.features.parameter_hooks import Options
from workers.training.features import Hooks, TrainingProgress


def hooks(options: Options) -> Hooks:
    """Registered ahead of the first step, when parameters are where they stay."""

    def before(progress: TrainingProgress) -> None:
        if progress.step == 0:
            for parameter in progress.module.parameters():
                if options.of == "gradient":
                    parameter.register_hook(halved)
                else:
                    parameter.register_post_accumulate_grad_hook(_halve)

    return Hooks(before=before)


def equal(_options: Options) -> Hooks:
    """Behind the backward passes."""

    def backward(progress: TrainingProgress) -> None:
        for parameter in progress.module.parameters():
            _halve(parameter)

    return Hooks(backward=backward)


def halved(gradient: Tensor) -> Tensor:
    """What a hook makes of a gradient."""
    return gradient / 2


def _halve(parameter: Tensor) -> None:
    if parameter.grad is not None:
        parameter.grad.div_(2)

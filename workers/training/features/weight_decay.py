"""The argument `weight_decay` of SGD and Adam.

Equal to adding the weights' share to their gradients.
"""

import torch

from workers.training.features import Hooks, Options, TrainingProgress


def hooks(options: Options) -> Hooks:
    """As torch's argument of that name."""
    return Hooks(arguments={"weight_decay": float(options["decay"])})


def equal(options: Options) -> Hooks:
    """Gradients grow after they were read and clipped."""

    def inside(progress: TrainingProgress) -> None:
        for parameter in progress.module.parameters():
            if parameter.grad is not None:
                with torch.no_grad():
                    parameter.grad.add_(parameter, alpha=float(options["decay"]))

    return Hooks(inside=inside)

"""The argument `weight_decay` of SGD and Adam.

Equal to adding the weights' share to their gradients.
"""

import torch

from difftest.cases.features.weight_decay import Options
from workers.training.features import Hooks, TrainingProgress, nothing

hooks = nothing  # beside its argument


def equal(options: Options) -> Hooks:
    """Gradients grow after they were read and clipped."""

    def inside(progress: TrainingProgress) -> None:
        for parameter in progress.module.parameters():
            if parameter.grad is not None:
                with torch.no_grad():
                    parameter.grad.add_(parameter, alpha=options.decay)

    return Hooks(inside=inside)

"""`clip_grad_norm_` with the infinity norm: the greatest magnitude of all gradients is at most `norm`.

Equal to a factor for all of them: `norm` over the greatest magnitude and 1e-6, and at most 1.
"""

import math

import torch

from difftest.cases.features.clip_by_infinity_norm import Options
from workers.training.features import Hooks, TrainingProgress

EPSILON = 1e-6
"""torch's."""


def hooks(options: Options) -> Hooks:
    """By torch's function, over all parameters at once."""

    def update(progress: TrainingProgress) -> None:
        norm = options.norm
        torch.nn.utils.clip_grad_norm_(progress.module.parameters(), norm, norm_type=math.inf)

    return Hooks(update=update, reads_values=True)


def equal(options: Options) -> Hooks:
    """One gradient after another."""

    def update(progress: TrainingProgress) -> None:
        gradients = [
            parameter.grad for parameter in progress.module.parameters() if parameter.grad is not None
        ]
        greatest = torch.stack([gradient.abs().max() for gradient in gradients]).max()
        factor = (options.norm / (greatest + EPSILON)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor)

    return Hooks(update=update)

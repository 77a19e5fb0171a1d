"""`clip_grad_norm_` with the infinity norm or another one: that of all gradients is at most `norm`.

Equal to a factor for all of them: `norm` over the norm of their norms and 1e-6, and at most 1.
"""

import math

import torch
from torch import Tensor

from difftest.cases.features.clip_by_infinity_norm import Options
from workers.training.features import Hooks, TrainingProgress

EPSILON = 1e-6
"""torch's."""


def hooks(options: Options) -> Hooks:
    """By torch's function, over all parameters at once."""

    def update(progress: TrainingProgress) -> None:
        parameters = progress.module.parameters()
        torch.nn.utils.clip_grad_norm_(parameters, options.norm, norm_type=options.order)

    return Hooks(update=update, reads_values=options.order == math.inf)


def equal(options: Options) -> Hooks:
    """One gradient after another."""

    def update(progress: TrainingProgress) -> None:
        gradients = [
            parameter.grad for parameter in progress.module.parameters() if parameter.grad is not None
        ]
        norms = torch.stack([_norm(gradient, options.order) for gradient in gradients])
        factor = (options.norm / (_norm(norms, options.order) + EPSILON)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor)

    return Hooks(update=update)


def _norm(values: Tensor, order: float) -> Tensor:
    """The norm of this order: of order 0 it is the number of those that are not 0."""
    if order == 0:
        return (values != 0).sum()
    return values.abs().max() if order == math.inf else values.abs().pow(order).sum().pow(1 / order)

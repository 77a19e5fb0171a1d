"""`clip_grad_value_`: every element of every gradient is clipped to `value`.

Equal to `clamp_` of each gradient.
"""

import torch

from difftest.cases.features.clip_by_value import Options
from workers.training.features import Hooks, TrainingProgress


def hooks(options: Options) -> Hooks:
    """By torch's function, over all parameters at once."""
    return Hooks(
        update=lambda progress: torch.nn.utils.clip_grad_value_(progress.module.parameters(), options.value)
    )


def equal(options: Options) -> Hooks:
    """One gradient after another."""
    most = options.value

    def update(progress: TrainingProgress) -> None:
        for parameter in progress.module.parameters():
            if parameter.grad is not None:
                parameter.grad.clamp_(-most, most)

    return Hooks(update=update)

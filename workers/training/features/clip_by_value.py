"""`clip_grad_value_`: every element of every gradient is clipped to `value`.

Equal to `clamp_` of each gradient.
"""

import torch

from workers.training.features import Hooks, Options, TrainingProgress


def hooks(options: Options) -> Hooks:
    """By torch's function, over all parameters at once."""
    return Hooks(
        update=lambda progress: torch.nn.utils.clip_grad_value_(
            progress.module.parameters(), float(options["value"])
        )
    )


def equal(options: Options) -> Hooks:
    """One gradient after another."""
    most = float(options["value"])

    def update(progress: TrainingProgress) -> None:
        for parameter in progress.module.parameters():
            if parameter.grad is not None:
                parameter.grad.clamp_(-most, most)

    return Hooks(update=update)

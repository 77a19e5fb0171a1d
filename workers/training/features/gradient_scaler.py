"""`torch.amp.GradScaler`: gradients of a scaled loss are unscaled, and an update is skipped that overflows.

Equal to no scaler. The scale is a power of two, which rounds nothing. Ahead of step `step` comes a backward
of an infinite loss: nothing of it may be left.
"""

import math

import torch
from torch.amp.grad_scaler import GradScaler

from difftest.cases.features.gradient_scaler import SCALE, Options
from workers.training.features import Hooks, TrainingProgress, nothing


def hooks(options: Options) -> Hooks:
    """The scaler is made ahead of the first step."""
    held: list[GradScaler] = []

    def before(progress: TrainingProgress) -> None:
        if not held:
            device = next(progress.module.parameters()).device.type
            held.append(GradScaler(device, init_scale=SCALE, growth_interval=1000))
        if progress.step == options.step:
            scaler = held[0]
            scaler.scale(progress.forward() * math.inf).backward()
            scaler.step(progress.optimizer)
            scaler.update()
            progress.optimizer.zero_grad()

    def update(progress: TrainingProgress) -> None:
        scale = held[0].get_scale()
        for parameter in progress.module.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(scale)  # as if the loss had been
        held[0].scale(torch.ones((), device=next(progress.module.parameters()).device))
        held[0].unscale_(progress.optimizer)

    return Hooks(before=before, update=update, after=lambda _progress: held[0].update(), leaves_device=True)


equal = nothing

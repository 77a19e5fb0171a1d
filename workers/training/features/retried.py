"""A first attempt at a step, which runs out of memory and is caught. Equal to no such attempt."""

import torch
from torch import nn

from difftest.cases.features.retried import Options
from workers.training.features import Hooks, TrainingProgress, nothing


def hooks(options: Options) -> Hooks:
    """Ahead of the step; lazy tensors need new graphs behind it."""

    def before(progress: TrainingProgress) -> None:
        if progress.step == options.step:
            attempt(progress, options)

    return Hooks(before=before)


equal = nothing


def attempt(progress: TrainingProgress, at: Options) -> None:
    """Fails in a hook of the layer, and drops the gradients that there are by then."""
    layers = [layer for layer in progress.module.modules() if isinstance(layer, nn.Linear)]
    layer = layers[0 if at.layer == "first" else -1]
    backward = at.during == "backward"
    hook = (layer.register_full_backward_pre_hook if backward else layer.register_forward_hook)(_fail)
    try:
        (progress.forward() * progress.scale).backward()
    except torch.OutOfMemoryError:
        hook.remove()
        progress.optimizer.zero_grad()


def _fail(*_given: object) -> None:
    raise torch.OutOfMemoryError

"""Layers with `requires_grad=False`.

Equal to dropping their gradients, without which an optimizer leaves them as they are.
"""

from torch import nn

from difftest.cases.features.frozen_layers import Options
from workers.training.features import Hooks, TrainingProgress


def hooks(options: Options) -> Hooks:
    """They are frozen before the model is placed."""

    def place(module: nn.Module) -> nn.Module:
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(parameter.requires_grad and not options.holds(name))
        return module

    return Hooks(place=place)


def equal(options: Options) -> Hooks:
    """Their gradients are dropped before gradients are read."""

    def backward(progress: TrainingProgress) -> None:
        for name, parameter in progress.module.named_parameters():
            if options.holds(name):
                parameter.grad = None

    return Hooks(backward=backward)

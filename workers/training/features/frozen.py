"""A parameter with `requires_grad=False`.

Equal to dropping its gradient, without which an optimizer leaves it as it is.
"""

from torch import nn

from difftest.cases.features.frozen import Options
from workers.training.features import Hooks, TrainingProgress


def hooks(options: Options) -> Hooks:
    """It is frozen before the model is placed."""

    def place(module: nn.Module) -> nn.Module:
        module.get_parameter(options.name).requires_grad_(False)  # noqa: FBT003  torch's name says it
        return module

    return Hooks(place=place)


def equal(options: Options) -> Hooks:
    """Its gradient is dropped before gradients are read."""

    def backward(progress: TrainingProgress) -> None:
        progress.module.get_parameter(options.name).grad = None

    return Hooks(backward=backward)

"""Two groups of parameters: matrices, and vectors, which decay.

Equal to one group in which the vectors' gradients have their decay added.
"""

from typing import Any

import torch
from torch import nn

from difftest.cases.features.parameter_groups import Options
from workers.training.features import Hooks, TrainingProgress


def hooks(options: Options) -> Hooks:
    """The groups differ in `weight_decay`."""

    def groups(parameters: dict[str, nn.Parameter]) -> list[dict[str, Any]]:
        matrices = [parameter for parameter in parameters.values() if parameter.dim() > 1]
        vectors = [parameter for parameter in parameters.values() if parameter.dim() <= 1]
        return [{"params": matrices}, {"params": vectors, "weight_decay": options.decay}]

    return Hooks(groups=groups)


def equal(options: Options) -> Hooks:
    """`weight_decay` of SGD and Adam is added to the gradient."""

    def inside(progress: TrainingProgress) -> None:
        for parameter in progress.module.parameters():
            if parameter.dim() <= 1 and parameter.grad is not None:
                with torch.no_grad():
                    parameter.grad.add_(parameter, alpha=options.decay)

    return Hooks(inside=inside)

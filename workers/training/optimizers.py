"""The optimizer of a case, as torch has it."""

from typing import Any

import torch
from torch import nn

from difftest.cases.case import Case
from workers.own import made
from workers.training.features import Features
from workers.training.wrapped_names import parameters

OPTIMIZERS: dict[str, tuple[Any, dict[str, float]]] = {
    "sgd": (torch.optim.SGD, {}),
    "momentum": (torch.optim.SGD, {"momentum": 0.875}),
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {"weight_decay": 0.125}),
    "none": (torch.optim.SGD, {"lr": 0.0}),
}
"""The class of a case's optimizer, and its arguments beside the learning rate."""


def make_optimizer(case: Case, module: nn.Module, features: Features) -> torch.optim.Optimizer:
    """The optimizer of `torch.optim` over the placed parameters."""
    trained = features.trained(parameters(module))
    if case.training.optimizer == "own":
        return made.optimizer(case, trained)
    kind, arguments = OPTIMIZERS[case.training.optimizer]
    return features.optimizer(kind, trained, {"lr": case.training.learning_rate, **arguments})

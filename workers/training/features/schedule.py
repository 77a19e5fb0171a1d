"""A scheduler of `torch.optim.lr_scheduler`, stepped after every update.

Equal to setting the learning rate of every step by the formula of the scheduler's documentation.
"""

import math
from collections.abc import Callable

import torch
from torch.optim import lr_scheduler

from difftest.cases.features.schedule import PERIOD, STEP_SIZE, Options
from workers.training.features import Hooks, TrainingProgress

FORMULAS: dict[str, Callable[[float, int], float]] = {
    "step": lambda factor, step: factor ** (step // STEP_SIZE),
    "exponential": lambda factor, step: factor**step,
    "linear": lambda factor, step: factor + (1 - factor) * min(step, PERIOD) / PERIOD,
    "cosine": lambda factor, step: factor + (1 - factor) * (1 + math.cos(math.pi * step / PERIOD)) / 2,
    "lambda": lambda factor, step: 1 / (1 + factor * step),
}
"""By what the first learning rate is multiplied in a step, counted from 0."""


def hooks(options: Options) -> Hooks:
    """The scheduler is made ahead of the first step."""
    held: list[lr_scheduler.LRScheduler] = []

    def before(progress: TrainingProgress) -> None:
        if not held:
            held.append(scheduler(progress.optimizer, options.kind, options.factor))

    return Hooks(before=before, after=lambda _progress: held[0].step())


def equal(options: Options) -> Hooks:
    """The rate is set ahead of each update."""
    formula, first = FORMULAS[options.kind], list[float]()

    def update(progress: TrainingProgress) -> None:
        groups = progress.optimizer.param_groups
        first.extend(group["lr"] for group in groups[len(first) :])
        for group, rate in zip(groups, first, strict=True):
            group["lr"] = rate * formula(options.factor, progress.step)

    return Hooks(update=update)


def scheduler(optimizer: torch.optim.Optimizer, kind: str, factor: float) -> lr_scheduler.LRScheduler:
    """The scheduler of a kind, whose options make it what `FORMULAS` says."""
    match kind:
        case "step":
            return lr_scheduler.StepLR(optimizer, STEP_SIZE, factor)
        case "exponential":
            return lr_scheduler.ExponentialLR(optimizer, factor)
        case "linear":
            return lr_scheduler.LinearLR(optimizer, factor, 1.0, PERIOD)
        case "cosine":
            least = factor * optimizer.param_groups[0]["lr"]
            return lr_scheduler.CosineAnnealingLR(optimizer, PERIOD, least)
        case _:
            return lr_scheduler.LambdaLR(optimizer, lambda step: FORMULAS["lambda"](factor, step))

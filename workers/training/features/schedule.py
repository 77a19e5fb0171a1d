"""A scheduler of `torch.optim.lr_scheduler`, stepped after every update.

Equal to setting the learning rate of every step by the formula of the scheduler's documentation.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import torch
from torch.optim import lr_scheduler

from difftest.cases.features.schedule import CYCLE, PERIOD, STEP_SIZE, WARM_UP, Options
from workers.training.features import Hooks, TrainingProgress


def _cosine(factor: float, step: int, period: int = PERIOD) -> float:
    return factor + (1 - factor) * (1 + math.cos(math.pi * step / period)) / 2


FORMULAS: dict[str, Callable[[float, int], float]] = {
    "step": lambda factor, step: factor ** (step // STEP_SIZE),
    "exponential": lambda factor, step: factor**step,
    "linear": lambda factor, step: factor + (1 - factor) * min(step, PERIOD) / PERIOD,
    "cosine": _cosine,
    "lambda": lambda factor, step: 1 / (1 + factor * step),
    "warmed": lambda factor, step: _cosine(factor, step - WARM_UP) if step >= WARM_UP else factor,
    "unwarmed": _cosine,
    "one_cycle": lambda factor, step: factor + (1 - factor) * min(step / 3, (7 - step) / 4),
    "restarts": lambda factor, step: _cosine(factor, step % STEP_SIZE, STEP_SIZE),
    "polynomial": lambda factor, step: (1 - min(step, PERIOD) / PERIOD) ** factor,
    "chained": lambda factor, step: factor**step * (factor if step < STEP_SIZE else 1),
}
"""By what the first learning rate is multiplied in a step, counted from 0."""


def hooks(options: Options) -> Hooks:
    """The scheduler is made ahead of the first step."""
    held: list[lr_scheduler.LRScheduler] = []

    def before(progress: TrainingProgress) -> None:
        if not held:
            held.append(SCHEDULERS[options.kind](progress.optimizer, options.factor))

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


Made: TypeAlias = Callable[[torch.optim.Optimizer, float], lr_scheduler.LRScheduler]


def _rate(optimizer: torch.optim.Optimizer) -> float:
    """The first learning rate, of an optimizer without a scheduler, as a number where it is a tensor."""
    return float(optimizer.param_groups[0]["lr"])


def _one_after_another(milestone: int, optimizer: torch.optim.Optimizer, factor: float) -> Any:  # noqa: ANN401
    """A linear schedule, and from the milestone on a cosine, which is made first, as it reads the rate."""
    cosine, linear = SCHEDULERS["cosine"](optimizer, factor), SCHEDULERS["linear"](optimizer, factor)
    return lr_scheduler.SequentialLR(optimizer, [linear, cosine], [milestone])


def _chained(optimizer: torch.optim.Optimizer, factor: float) -> Any:  # noqa: ANN401
    """A constant schedule and an exponential one at once."""
    constant = lr_scheduler.ConstantLR(optimizer, factor, STEP_SIZE)
    return lr_scheduler.ChainedScheduler([constant, SCHEDULERS["exponential"](optimizer, factor)])


SCHEDULERS: Mapping[str, Made] = {
    "step": lambda optimizer, factor: lr_scheduler.StepLR(optimizer, STEP_SIZE, factor),
    "exponential": lr_scheduler.ExponentialLR,
    "linear": lambda optimizer, factor: lr_scheduler.LinearLR(optimizer, factor, 1.0, PERIOD),
    "cosine": lambda optimizer, factor: lr_scheduler.CosineAnnealingLR(
        optimizer, PERIOD, factor * _rate(optimizer)
    ),
    "lambda": lambda optimizer, factor: lr_scheduler.LambdaLR(optimizer, partial(FORMULAS["lambda"], factor)),
    "warmed": partial(_one_after_another, WARM_UP),
    "unwarmed": partial(_one_after_another, 0),
    "one_cycle": lambda optimizer, factor: lr_scheduler.OneCycleLR(
        optimizer, _rate(optimizer), div_factor=1 / factor, **CYCLE
    ),
    "restarts": lambda optimizer, factor: lr_scheduler.CosineAnnealingWarmRestarts(
        optimizer, STEP_SIZE, eta_min=factor * _rate(optimizer)
    ),
    "polynomial": lambda optimizer, factor: lr_scheduler.PolynomialLR(optimizer, PERIOD, factor),
    "chained": _chained,
}
"""The schedulers of every kind, whose options make them what `FORMULAS` says."""

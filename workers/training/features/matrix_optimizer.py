"""Muon and Adafactor: what they make of a shard depends on the whole matrix.

Equal to the formula of their documentation. Muon makes a matrix orthogonal in bfloat16.
"""

from functools import partial
from typing import Any

import torch

from difftest.cases.features.matrix_optimizer import LEAST, OF_PARAMETERS, Options
from difftest.ground.errors import UnsupportedError
from workers.training.features import Hooks, TrainingProgress
from workers.training.formulas import ByFormula

MATRIX = 2
"""The dims of a matrix."""

DECAY = 0.1
"""Muon's own decay."""


def hooks(options: Options) -> Hooks:
    """With torch's class; `UnsupportedError` where it has none."""
    if options.kind == "adafactor":
        return _instead(partial(torch.optim.Adafactor, eps=(LEAST, OF_PARAMETERS)), options)
    if not hasattr(torch.optim, "Muon"):
        msg = "torch.optim has Muon from 2.9 on"
        raise UnsupportedError(msg)
    return _instead(partial(torch.optim.Muon, nesterov=options.nesterov), options)


def equal(options: Options) -> Hooks:
    """One tensor after another."""
    if options.kind == "adafactor":
        return _instead(partial(ByFormula, kind="adafactor"), options)
    kind = "muon" if options.nesterov else "muon_without_nesterov"
    return _instead(partial(ByFormula, kind=kind, weight_decay=DECAY), options)


def _instead(kind: Any, options: Options) -> Hooks:  # noqa: ANN401  what is called as a class of optimizers is
    """`kind` at its own rate, over what it trains; gradients of others are dropped."""

    def made(trained: list[Any], **_arguments: Any) -> torch.optim.Optimizer:  # noqa: ANN401
        every = [one for one in trained if one.dim() == MATRIX or options.kind != "muon"]
        optimizer: torch.optim.Optimizer = kind(every, lr=options.rate)
        return optimizer

    def after(progress: TrainingProgress) -> None:
        for parameter in progress.module.parameters():
            parameter.grad = None

    return Hooks(kind=lambda _optimizer: made, after=after)

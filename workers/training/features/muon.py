"""Muon over the matrices of a model: what it makes of a shard depends on the whole matrix.

Equal to the formula of its documentation, which makes a matrix orthogonal in bfloat16.
"""

from functools import partial
from typing import Any

import torch

from difftest.cases.features.muon import MATRIX, Options
from difftest.ground.errors import UnsupportedError
from workers.training.features import Hooks, TrainingProgress
from workers.training.formulas import ByFormula

DECAY = 0.1
"""The weight decay that torch's class has by default."""


def hooks(options: Options) -> Hooks:
    """With torch's class; `UnsupportedError` where it has none."""
    if not hasattr(torch.optim, "Muon"):
        msg = "torch.optim has Muon from 2.9 on"
        raise UnsupportedError(msg)
    return _instead(partial(torch.optim.Muon, lr=options.rate, nesterov=options.nesterov))


def equal(options: Options) -> Hooks:
    """One tensor after another."""
    kind = "muon" if options.nesterov else "muon_without_nesterov"
    return _instead(partial(ByFormula, lr=options.rate, kind=kind, weight_decay=DECAY))


def _instead(kind: Any) -> Hooks:  # noqa: ANN401  what is called as a class of optimizers is
    """`kind` at its own rate, over matrices; the gradients of vectors are dropped."""

    def made(trained: list[Any], **_arguments: Any) -> torch.optim.Optimizer:  # noqa: ANN401
        optimizer: torch.optim.Optimizer = kind([one for one in trained if one.dim() == MATRIX])
        return optimizer

    def after(progress: TrainingProgress) -> None:
        for parameter in progress.module.parameters():
            parameter.grad = None

    return Hooks(kind=lambda _optimizer: made, after=after)

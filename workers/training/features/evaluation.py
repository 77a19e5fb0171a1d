"""Evaluation ahead of every step: `eval()`, a forward without gradients, `train()`.

Equal to no evaluation: nothing that is trained may change.
"""

import torch

from difftest.cases.features.evaluation import Options
from workers.training.features import Hooks, TrainingProgress, nothing


def hooks(_options: Options) -> Hooks:
    """One part of the step's batch is evaluated."""
    kept: list[torch.Tensor] = []
    """The last loss: lazy tensors that nobody keeps are not computed."""

    def before(progress: TrainingProgress) -> None:
        progress.module.eval()
        with torch.no_grad():
            kept[:] = [progress.forward()]
        progress.module.train()

    return Hooks(before=before)


equal = nothing

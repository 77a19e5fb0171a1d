"""A forward pass without gradients between the backward pass and the update, as metrics are computed.

Equal to none: nothing that is trained may change.
"""

import torch

from difftest.cases.features.evaluated_before_update import Options
from workers.training.features import Hooks, TrainingProgress, nothing


def hooks(_options: Options) -> Hooks:
    """One part of the step's batch is evaluated."""
    kept: list[torch.Tensor] = []
    """The last loss: lazy tensors that nobody keeps are not computed."""

    def update(progress: TrainingProgress) -> None:
        kept[:] = [metric(progress)]

    return Hooks(update=update)


equal = nothing


def metric(progress: TrainingProgress) -> torch.Tensor:
    """The loss of one part of the batch."""
    with torch.no_grad():
        return progress.forward()

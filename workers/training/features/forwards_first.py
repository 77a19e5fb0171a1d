"""The forward passes of all parts of a batch before the first backward pass.

Equal to nothing: gradients of a sum are the sum of the gradients.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from difftest.cases.features.forwards_first import Options
from workers.training.features import Hooks, nothing


def hooks(options: Options) -> Hooks:
    """The loop keeps the losses, and differentiates their sum or one after another."""
    return Hooks(forwards_first=options.backward)


def differentiated(losses: Sequence[Tensor], how: str) -> list[Tensor]:
    """What the backward passes begin with, from the losses of all parts."""
    return [torch.stack([*losses]).sum()] if how == "once" else [*losses]


equal = nothing

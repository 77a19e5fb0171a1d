"""`module.double()` behind the wrapper, and back to the dtype that it had.

Equal to nothing: float64 has every number of the others.
"""

import torch
from torch import nn

from difftest.cases.features.converted import Options
from workers.training.features import Hooks, TrainingProgress, nothing


def hooks(options: Options) -> Hooks:
    """By torch's functions, which keep the parameters and change what they hold."""

    def before(progress: TrainingProgress) -> None:
        if progress.step == options.step:
            there_and_back(progress.module)

    return Hooks(before=before)


equal = nothing


def there_and_back(module: nn.Module, way: torch.dtype = torch.float64) -> None:
    """To the dtype `way` and back."""
    kept = next(module.parameters()).dtype
    module.to(way).to(kept)

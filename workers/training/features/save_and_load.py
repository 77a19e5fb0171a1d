"""`torch.save` and `torch.load` of the module and the optimizer, in the middle of a run.

What was saved is then all there is: parameters are set to zero and the optimizer forgets its state before
they are loaded. Equal to a run that does not save.
"""

import io

import torch

from difftest.cases.features.save_and_load import Options
from workers.training.features import Hooks, TrainingProgress, nothing


def hooks(options: Options) -> Hooks:
    """Each rank saves what it holds, before step `step`."""

    def before(progress: TrainingProgress) -> None:
        if progress.step == options.step:
            _reload(progress)

    return Hooks(before=before, leaves_device=True)


equal = nothing


def _reload(progress: TrainingProgress) -> None:
    module, optimizer = progress.module, progress.optimizer
    file = io.BytesIO()
    torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict()}, file)
    progress.forget()
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])

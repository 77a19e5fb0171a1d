"""`state_dict` of the module, taken once ahead of the first step and loaded after every update.

Its tensors are those of the module, as trainers rely on that keep one for their checkpoints. Equal to loading
nothing.
"""

from typing import Any

from difftest.cases.features.kept_state_dict import Options
from workers.training.features import Hooks, TrainingProgress, nothing


def hooks(_options: Options) -> Hooks:
    """It is taken from the placed module."""
    kept: dict[str, Any] = {}

    def before(progress: TrainingProgress) -> None:
        if progress.step == 0:
            kept.update(state_of(progress))

    return Hooks(before=before, after=lambda progress: loaded(progress, kept))


equal = nothing


def state_of(progress: TrainingProgress) -> dict[str, Any]:
    """The module's state as it is now."""
    return progress.module.state_dict()


def loaded(progress: TrainingProgress, kept: dict[str, Any]) -> None:
    """Loads what was kept, which changes nothing where it is the module's own."""
    progress.module.load_state_dict(kept)

"""A state dict that is taken once, before the first step, and kept."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has


class Options(FeatureOptions, frozen=True):
    """It has none."""

    PATHS: ClassVar[tuple[str, ...]] = ("wrappers",)

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Any case with a second step; not beside another that loads a module."""
        loads = has(case, "averaged_weights", "distributed_checkpoint", "save_and_load")
        return {} if case.training.steps > 1 and not loads else None

    def spelled(self, _training: Training) -> Spelled:
        """Loaded after every update, which changes nothing where its tensors are the module's."""
        return Spelled(begun=("kept = model.state_dict()",), after=("model.load_state_dict(kept)",))

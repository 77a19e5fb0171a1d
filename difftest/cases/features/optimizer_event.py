"""An event after the optimizer's step, for which FSDP waits before it gathers parameters again."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions


class Options(FeatureOptions, frozen=True):
    """It has none."""

    PATHS: ClassVar[tuple[str, ...]] = ("shards",)

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """A case with a step after an update."""
        return {} if case.training.steps > 1 else None

    def spelled(self, _training: Training) -> None:
        """No script has one yet."""

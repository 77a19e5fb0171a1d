"""A group of the optimizer's without a parameter, as where none is of the kind that it is for."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has


class Options(FeatureOptions, frozen=True):
    """It has none. The first group has all parameters."""

    PATHS: ClassVar[tuple[str, ...]] = ("own_steps",)

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Not beside groups of another kind."""
        return None if has(case, "parameter_groups", "muon") else {}

    def spelled(self, _training: Training) -> Spelled:
        """The groups have the same options."""
        return Spelled(parameters='[{"params": [*model.parameters()]}, {"params": []}]')

"""Nesterov momentum."""

from difftest.cases.case import Case
from difftest.cases.feature import Arguments, Choices, FeatureOptions, has


class Options(FeatureOptions, frozen=True):
    """It has none."""

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """SGD with momentum; a decay that is added to gradients would come before it."""
        decays = has(case, "weight_decay", "parameter_groups")
        return {} if case.training.optimizer == "momentum" and not decays else None

    def arguments(self) -> Arguments:
        """As torch's argument of that name."""
        return {"nesterov": True}

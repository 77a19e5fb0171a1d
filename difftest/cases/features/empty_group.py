"""A group of the optimizer's without a parameter, as where none is of the kind that it is for."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has


class Options(FeatureOptions, frozen=True):
    """Whether it is the first one, or the group of all parameters is."""

    PATHS: ClassVar[tuple[str, ...]] = ("own_steps",)

    first: bool = False

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Not beside groups of another kind."""
        return None if has(case, "parameter_groups", "muon") else {"first": (False, True)}

    def spelled(self, _training: Training) -> Spelled:
        """The groups have the same options."""
        groups = ['{"params": [*model.parameters()]}', '{"params": []}']
        return Spelled(parameters=f"[{', '.join(groups[::-1] if self.first else groups)}]")

"""Successive layers that are not trained, such as the first ones of a model that is tuned."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.layers import walk
from difftest.cases.schema import Size, Step


class Options(FeatureOptions, frozen=True):
    """The first of them, and how many they are."""

    PATHS: ClassVar[tuple[str, ...]] = ("pipelines",)

    first: Step
    count: Size

    def holds(self, name: str, _step: int = 0) -> bool:
        """Whether a parameter is one of theirs."""
        return self.first <= int(name.partition(".")[0]) < self.first + self.count

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Some of several layers; not in models that tie theirs."""
        layers = len(case.model.layers)
        if layers < 2 or any(layer.borrows() for _, layer in walk(case.model.layers)):  # noqa: PLR2004
            return None
        return {"first": tuple(range(layers - 1)), "count": tuple(range(1, layers))}

    def spelled(self, _training: Training) -> Spelled:
        """They are frozen before the model is placed."""
        return Spelled(built=(f"model[{self.first}:{self.first + self.count}].requires_grad_(False)",))

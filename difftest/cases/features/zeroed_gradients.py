"""Gradients that are set to zero and not dropped, or that are dropped elsewhere than behind the update.

Equal to dropping them behind the update.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled


class Options(FeatureOptions, frozen=True):
    """Who drops them, ahead of the forward pass or behind it; behind the update they are set to zero."""

    FURTHER_ON: ClassVar[tuple[str, ...]] = ("own_steps",)

    by: Literal["optimizer", "model"] = "optimizer"
    place: Literal["update", "before", "forward"] = "update"

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """A second step shows what was left of the first one's."""
        if case.training.steps == 1:
            return None
        elsewhere = {"by": ("optimizer", "model"), "place": ("before", "forward")}
        return elsewhere if cls.draws_further(case) else {}

    def zero_arguments(self) -> Mapping[str, bool]:
        """As torch's argument of that name."""
        return {"set_to_none": False} if self.place == "update" else {}

    def spelled(self, training: Training) -> Spelled | None:
        """At its place."""
        line = (f"{self.by}.zero_grad()",)
        match self.place:
            case "before":
                return Spelled(zeroes=True, before=line)
            case "forward":
                return Spelled(zeroes=True, forwarded=line)
            case _:
                return super().spelled(training)

"""A module that is converted to another dtype and back, behind its wrapper."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.schema import Step


class Options(FeatureOptions, frozen=True):
    """Ahead of which step, 0 being the first."""

    PATHS: ClassVar[tuple[str, ...]] = ("replicated",)

    step: Step

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Ahead of one of the first two steps."""
        return {"step": tuple(range(min(2, case.training.steps)))}

    def spelled(self, _training: Training) -> Spelled:
        """To float64, which changes no number, and back."""
        return Spelled(
            before=(
                f"if step == {self.step}:",
                "    kept = next(model.parameters()).dtype",
                "    model.double().to(kept)",
            )
        )

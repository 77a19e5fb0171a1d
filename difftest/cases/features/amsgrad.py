"""The AMSGrad variant of Adam and AdamW, which keeps the greatest second moment.

Equal to itself in the implementation that loops: the formula has no shorter form.
"""

from difftest.cases.case import Case
from difftest.cases.feature import Arguments, Choices, FeatureOptions


class Options(FeatureOptions, frozen=True):
    """It has none."""

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """A second step shows that the greatest second moment is kept."""
        adam = case.training.optimizer in ("adam", "adamw")
        return {} if adam and case.training.steps > 1 else None

    def arguments(self) -> Arguments:
        """As torch's argument of that name."""
        return {"amsgrad": True}

    def reference_arguments(self) -> Arguments:
        """One tensor after another."""
        return {"amsgrad": True, "foreach": False}

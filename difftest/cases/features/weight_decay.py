"""Weights that decay."""

from difftest.cases.case import Case
from difftest.cases.feature import Arguments, Choices, FeatureOptions, has
from difftest.cases.schema import Share


class Options(FeatureOptions, frozen=True):
    """The weight decay."""

    decay: Share

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """AdamW has a decay already, and so has a group; ascent changes the sign of gradients only."""
        if case.training.optimizer == "adamw" or has(case, "parameter_groups", "maximize"):
            return None
        return {"decay": (0.0625, 0.25)}

    def arguments(self) -> Arguments:
        """As torch's argument of that name."""
        return {"weight_decay": self.decay}

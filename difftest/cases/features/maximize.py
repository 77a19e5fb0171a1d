"""Ascent instead of descent."""

from difftest.cases.case import Case
from difftest.cases.feature import Arguments, Choices, FeatureOptions

MOST_STEPS = 3


class Options(FeatureOptions, frozen=True):
    """It has none."""

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Any optimizer can; little is left to compare after many steps of ascent."""
        return {} if case.training.steps <= MOST_STEPS else None

    def arguments(self) -> Arguments:
        """As torch's argument of that name."""
        return {"maximize": True}

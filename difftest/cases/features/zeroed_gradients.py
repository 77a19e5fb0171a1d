"""Gradients that are set to zero and not dropped: the next backward adds to them.

Equal to dropping them.
"""

from collections.abc import Mapping

from difftest.cases.case import Case
from difftest.cases.feature import Choices, FeatureOptions


class Options(FeatureOptions, frozen=True):
    """It has none."""

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """A second step shows what was left of the first one's."""
        return {} if case.training.steps > 1 else None

    def zero_arguments(self) -> Mapping[str, bool]:
        """As torch's argument of that name."""
        return {"set_to_none": False}

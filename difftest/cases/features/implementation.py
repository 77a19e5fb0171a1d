"""The implementation of an optimizer: several tensors at once, or one kernel for all of its operators.

Equal to one tensor after another, each operator of its own.
"""

from typing import Literal

from difftest.cases.case import Case
from difftest.cases.feature import Arguments, Choices, FeatureOptions


class Options(FeatureOptions, frozen=True):
    """Torch's name of it."""

    kind: Literal["foreach", "fused"]

    @classmethod
    def drawn(cls, _case: Case) -> Choices | None:
        """Any optimizer has both."""
        return {"kind": ("foreach", "fused")}

    def arguments(self) -> Arguments:
        """As torch's argument of that name."""
        return {self.kind: True}

    def reference_arguments(self) -> Arguments:
        """The implementation that loops."""
        return {"foreach": False}

"""Several forward passes before the first backward pass, as in a step of two views, or of two networks."""

from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled


class Options(FeatureOptions, frozen=True):
    """Whether losses are added up and differentiated `once`, or `each` of them by itself.

    No wrapper is told to wait with its reduction: nobody says that another backward pass comes.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("wrappers",)

    backward: Literal["once", "each"]

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Several parts of a batch; not of a static graph, whose iterations are a forward and a backward."""
        several = case.training.accumulation > 1 and case.start.accumulation == "loop"
        if not several or case.replication.static_graph:
            return None
        return {"backward": ("once", "each")}

    def spelled(self, _training: Training) -> Spelled:
        """The losses of the parts are kept until all of them are there."""
        return Spelled(forwards_first=self.backward)

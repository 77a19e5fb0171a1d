"""A metric of the step's batch: a forward pass without gradients between the backward pass and the update."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled


class Options(FeatureOptions, frozen=True):
    """It has none. Equal to no metric: nothing that is trained may change."""

    PATHS: ClassVar[tuple[str, ...]] = ("own_steps",)

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """A second step shows what the first update left as it was."""
        return {} if case.training.steps > 1 and not case.replication.static_graph else None

    def spelled(self, _training: Training) -> Spelled:
        """The output is kept, or lazy tensors would not be computed."""
        return Spelled(update=("with torch.no_grad():", "    evaluated = model(feed(inputs))"))

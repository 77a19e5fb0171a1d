"""Evaluation between steps."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled


class Options(FeatureOptions, frozen=True):
    """It has none."""

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Not where a static graph must be the same in every iteration."""
        return None if case.replication.static_graph else {}

    def spelled(self, _training: Training) -> Spelled:
        """The step's batch is evaluated; the output is kept, or lazy tensors would not be computed."""
        return Spelled(
            before=(
                "model.eval()",
                "with torch.no_grad():",
                "    evaluated = model(feed(inputs))",
                "model.train()",
            )
        )

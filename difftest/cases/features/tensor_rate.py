"""A learning rate that is a tensor."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has
from difftest.cases.script_values import python


class Options(FeatureOptions, frozen=True):
    """It has none."""

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Not beside `foreach`, for which torch refuses it."""
        return None if has(case, "implementation") else {}

    def spelled(self, training: Training) -> Spelled:
        """The tensor is on the host, as in torch's documentation."""
        return Spelled(arguments={"lr": f"torch.tensor({python(training.learning_rate)})"})

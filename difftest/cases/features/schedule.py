"""A scheduler of the learning rate, stepped after every update."""

from typing import Literal, TypeAlias, get_args

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.schema import Positive
from difftest.cases.script_values import python

Kind: TypeAlias = Literal["step", "exponential", "linear", "cosine", "lambda"]
"""The classes of `torch.optim.lr_scheduler`, in short."""

STEP_SIZE = 2
PERIOD = 4
"""In steps."""


class Options(FeatureOptions, frozen=True):
    """The kind of schedule, and the factor of the learning rate."""

    kind: Kind
    factor: Positive

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """It needs a second step to show."""
        return {"kind": get_args(Kind), "factor": (0.5, 0.75)} if case.training.steps > 1 else None

    def spelled(self, training: Training) -> Spelled:
        """The scheduler is made ahead of the first step."""
        factor, least = python(self.factor), python(self.factor * training.learning_rate)
        made = {
            "step": f"StepLR(optimizer, {STEP_SIZE}, {factor})",
            "exponential": f"ExponentialLR(optimizer, {factor})",
            "linear": f"LinearLR(optimizer, {factor}, 1.0, {PERIOD})",
            "cosine": f"CosineAnnealingLR(optimizer, {PERIOD}, {least})",
            "lambda": f"LambdaLR(optimizer, lambda step: 1 / (1 + {factor} * step))",
        }[self.kind]
        return Spelled(begun=(f"scheduler = torch.optim.lr_scheduler.{made}",), after=("scheduler.step()",))

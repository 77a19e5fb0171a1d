"""A penalty on the slope of the output along the inputs, as of critics and of models of energies."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.schema import Share
from difftest.cases.script_values import python


class Options(FeatureOptions, frozen=True):
    """The factor of the sum of the squares of `d(sum of outputs) / d(inputs)`, divided as the loss is.

    So each row has a penalty of its own, and those of ranks and of accumulation parts add up.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("own_steps",)
    CHANGES_GRADIENTS: ClassVar[bool] = True

    factor: Share

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Inputs that have a slope; not what is computed again or traced apart, nor a loss of cut classes."""
        again = case.training.checkpointing or case.start.accumulation == "scan"
        if case.model.tokens or case.model.own or again or case.cut_by.loss != "whole":
            return None
        return {"factor": (0.25, 0.5)}

    def spelled(self, _training: Training) -> Spelled:
        """Behind the loss of each part."""
        return Spelled(penalty=python(self.factor))

"""A loss with a derivative of forward mode in it, as of flow maps and consistency models (MeanFlow, sCM)."""

from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has
from difftest.cases.schema import Share
from difftest.cases.script_values import python


class Options(FeatureOptions, frozen=True):
    """The factor of the sum of the squares of the output's derivative, divided as the loss is.

    The direction is what is positive of the inputs. `form`: by `torch.func.jvp`, or by dual numbers.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("own_steps",)
    CHANGES_GRADIENTS: ClassVar[bool] = True

    factor: Share
    form: Literal["func", "dual"]

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """As of a penalty on the slope, which is no step beside this one."""
        again = case.training.checkpointing or case.start.accumulation == "scan"
        if case.model.tokens or case.model.own or again or case.cut_by.loss != "whole":
            return None
        return None if has(case, "gradient_penalty") else {"factor": (0.25, 0.5), "form": ("func", "dual")}

    def spelled(self, _training: Training) -> Spelled:
        """The forward pass gives both."""
        return Spelled(penalty=python(self.factor), forward_mode=self.form)

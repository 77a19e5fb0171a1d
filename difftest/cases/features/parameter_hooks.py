"""Hooks of parameters, which halve their gradients, as programs clip, scale or mask gradients by them."""

from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled


class Options(FeatureOptions, frozen=True):
    """A hook of each `gradient` (`register_hook`), or of the `sum` (`register_post_accumulate_grad_hook`)."""

    PATHS: ClassVar[tuple[str, ...]] = ("own_steps",)
    CHANGES_GRADIENTS: ClassVar[bool] = True

    of: Literal["gradient", "sum"]

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Any case; of several parts the sum is not complete when the hook is called."""
        return {"of": ("gradient", "sum") if case.training.accumulation == 1 else ("gradient",)}

    def spelled(self, _training: Training) -> Spelled:
        """Every parameter that is trained has one."""
        hook = "register_hook(lambda gradient: gradient / 2)"
        if self.of == "sum":
            hook = "register_post_accumulate_grad_hook(lambda one: one.grad.div_(2))"
        return Spelled(begun=("for parameter in model.parameters():", f"    parameter.{hook}"))

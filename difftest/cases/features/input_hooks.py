"""Layers that halve the gradient of their input by a hook, as layers that scale or reverse a gradient do."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.pipelining import SPLIT


class Options(FeatureOptions, frozen=True):
    """It has none. Every layer registers a hook on what it is given, in each forward pass."""

    PATHS: ClassVar[tuple[str, ...]] = ("pipelines",)
    CHANGES_GRADIENTS: ClassVar[bool] = True

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Several layers; not where a schedule asks for the gradients of inputs apart."""
        split = case.staged is not None and case.staged.schedule in SPLIT
        return None if split or len(case.model.layers) < 2 else {}  # noqa: PLR2004

    def spelled(self, _training: Training) -> Spelled:
        """A hook ahead of every layer, which registers one on its input."""
        return Spelled(
            built=(
                "def halving(layer, inputs):",
                "    if inputs[0].requires_grad:",
                "        inputs[0].register_hook(lambda gradient: gradient / 2)",
                "",
                "for layer in model.children():",
                "    layer.register_forward_pre_hook(halving)",
            )
        )

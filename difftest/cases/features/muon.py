"""Muon, which makes the momentum of a whole matrix orthogonal."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has
from difftest.cases.features.optimizer import EXCLUDED
from difftest.cases.schema import Positive
from difftest.cases.script_values import python

MATRIX = 2
"""The dims of what it trains; vectors stay what they are."""


class Options(FeatureOptions, frozen=True):
    """Its learning rate, and whether its momentum is Nesterov's."""

    PATHS: ClassVar[tuple[str, ...]] = ("shards",)

    nesterov: bool
    rate: Positive

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Where there is a matrix, in float32 or bfloat16, in which it computes."""
        matrices = any(len(shape) == MATRIX for shape in case.model.parameters().values())
        another = case.training.optimizer == "none" or has(case, "optimizer", *EXCLUDED)
        if not matrices or another or case.dtype == "float16":
            return None
        return {"nesterov": (True, False), "rate": (2.0**-5, 2.0**-7)}

    def spelled(self, _training: Training) -> Spelled:
        """In place of the case's, over matrices; the gradients of vectors are dropped."""
        matrices = f"[one for one in model.parameters() if one.dim() == {MATRIX}]"
        arguments = {"lr": python(self.rate), "nesterov": python(self.nesterov)}
        dropped = ("for one in model.parameters():", "    one.grad = None")
        return Spelled(kind="Muon", arguments=arguments, parameters=matrices, after=dropped)

"""Gradients clipped by the greatest of their magnitudes, or by another norm than the Euclidean one."""

import math
from typing import Annotated, ClassVar

import msgspec

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.schema import Positive
from difftest.cases.script_values import python


class Options(FeatureOptions, frozen=True):
    """The greatest norm that gradients may have, and the order of the norm, by default infinity."""

    FURTHER_ON: ClassVar[tuple[str, ...]] = ("own_steps",)

    norm: Positive
    order: Annotated[float, msgspec.Meta(ge=0.0, le=64.0)] = math.inf

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Not where gradients are clipped by their norm already."""
        if case.training.clip_norm is not None:
            return None
        orders = {"order": (0.0, 0.5, 1.0, 3.0)} if cls.draws_further(case) else {}
        return {"norm": (0.015625, 0.125), **orders}

    def spelled(self, _training: Training) -> Spelled:
        """By torch's function, over all parameters at once."""
        norm, order = python(self.norm), "torch.inf" if self.order == math.inf else python(self.order)
        return Spelled(
            update=(f"torch.nn.utils.clip_grad_norm_(model.parameters(), {norm}, norm_type={order})",)
        )

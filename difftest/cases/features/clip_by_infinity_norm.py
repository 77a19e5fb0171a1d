"""Gradients clipped by the greatest of their magnitudes."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.schema import Positive
from difftest.cases.script_values import python


class Options(FeatureOptions, frozen=True):
    """The greatest magnitude that a gradient may have."""

    norm: Positive

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Not where gradients are clipped by their norm already."""
        return {"norm": (0.015625, 0.125)} if case.training.clip_norm is None else None

    def spelled(self, _training: Training) -> Spelled:
        """By torch's function, over all parameters at once."""
        norm = python(self.norm)
        return Spelled(
            update=(f"torch.nn.utils.clip_grad_norm_(model.parameters(), {norm}, norm_type=torch.inf)",)
        )

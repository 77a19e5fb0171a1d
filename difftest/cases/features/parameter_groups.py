"""Parameters of few dims have options of their own."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has
from difftest.cases.schema import Share
from difftest.cases.script_values import python


class Options(FeatureOptions, frozen=True):
    """The weight decay of the group of vectors."""

    decay: Share

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """A matrix and a vector; AdamW has a decay already, and ascent changes the sign of gradients only."""
        dims = {len(shape) > 1 for shape in case.model.parameters().values()}
        if case.training.optimizer == "adamw" or len(dims) == 1 or has(case, "maximize"):
            return None
        return {"decay": (0.125, 0.25)}

    def spelled(self, _training: Training) -> Spelled:
        """The groups differ in `weight_decay`."""
        matrices, vectors = (
            f"[one for one in model.parameters() if one.dim() {sign} 1]" for sign in (">", "<=")
        )
        decay = python(self.decay)
        return Spelled(
            parameters=f'[{{"params": {matrices}}}, {{"params": {vectors}, "weight_decay": {decay}}}]'
        )

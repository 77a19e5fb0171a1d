"""A Linear layer that is frozen, with a trained correction of low rank beside it (LoRA)."""

from typing import ClassVar

from difftest.cases.block import BlockArguments, Choices, Declared, linear
from difftest.cases.schema import Positive, Size
from difftest.cases.sizes import widths


class Arguments(BlockArguments, frozen=True):
    """Widths, the rank, and what the correction is multiplied by."""

    WEIGHT: ClassVar = 1

    inputs: Size
    outputs: Size
    rank: Size
    alpha: Positive

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """The correction is multiplied by `alpha` over the rank."""
        return {"inputs": widths(unit), "outputs": widths(unit), "rank": (2, 1, 4), "alpha": (4.0, 1.0)}

    def declared(self) -> Declared:
        """Three matrices and the frozen layer's bias."""
        parameters = {
            **linear("base", self.outputs, self.inputs, bias=True),
            **linear("down", self.rank, self.inputs),
            **linear("up", self.outputs, self.rank),
        }
        cuts = {"base.weight": (0, 1), "down.weight": (0, 1), "up.weight": (0, 1)}
        return Declared(parameters=parameters, inputs=self.inputs, outputs=self.outputs, cuts=cuts)

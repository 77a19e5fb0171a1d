"""Residual blocks that add their input in place, to a view of what their last layer gives."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.layers import walk
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual


class Options(FeatureOptions, frozen=True):
    """It has none. Equal to a sum: the addition is the same."""

    PATHS: ClassVar[tuple[str, ...]] = ("own_steps",)

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Blocks that are applied once and end in a Linear layer, whose backward pass needs no result of it.

        Not on `tp`, whose styles give views that torch does not let programs change, nor computed again.
        """
        blocks = [layer for _, layer in walk(case.model.layers) if isinstance(layer, Residual)]
        whole = all(isinstance(block.layers[-1], Linear) and block.times == 1 for block in blocks)
        again = case.training.checkpointing or case.start.accumulation == "scan"
        return {} if blocks and whole and not again and "tp" not in case.layout.mesh.names else None

    def spelled(self, _training: Training) -> Spelled:
        """The last layer of each block gives a view, ahead of wrappers."""
        hook = "lambda _layer, _inputs, given: given.unsqueeze(0).squeeze(0)"
        lines = "for block in model.modules():", "    if isinstance(block, Residual):"
        return Spelled(built=(*lines, f"        block[-1].register_forward_hook({hook})"), in_place=True)

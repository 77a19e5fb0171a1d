"""Torch's cross entropy of a table of logits, with label smoothing, class weights and ignored targets.

The block takes ids: each has its row of logits, and a target that follows from it. Its outputs are losses:
one for every position, or with a `reduction` the same for all, in which rows influence each other.
"""

from typing import Literal

from difftest.cases.block import BlockArguments, Choices, Declared
from difftest.cases.schema import Share, Size
from difftest.cases.sizes import vocabularies


class Arguments(BlockArguments, frozen=True):
    """Ids, classes, and the options of the loss; with `ignored` the targets of one class do not count."""

    vocabulary: Size
    classes: Size
    smoothing: Share
    weighted: bool
    ignored: bool
    reduction: Literal["none", "mean", "sum"]

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """The number of classes is usually a multiple of `unit`."""
        return {
            "vocabulary": vocabularies(unit),
            "classes": (4 * unit, 4 * unit, 5, 3),
            "smoothing": (0.0, 0.125, 0.5),
            "weighted": (False, True),
            "ignored": (False, True),
            "reduction": ("none", "mean", "sum"),
        }

    def declared(self) -> Declared:
        """The table, and a buffer with the classes' weights."""
        return Declared(
            parameters={"logits.weight": (self.vocabulary, self.classes)},
            inputs=1,
            outputs=1,
            held_buffers={"weights": (self.classes,)} if self.weighted else {},
            vocabulary=self.vocabulary,
            positions=True,
            rowwise=self.reduction == "none",
            cuts={"logits.weight": (0, 1)},
        )

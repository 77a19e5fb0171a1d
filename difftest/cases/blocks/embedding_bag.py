"""Bags of embeddings with offsets, as in recommendation models: sums, means or maxima of a table's rows.

Every row of ids is cut into as many bags as it has ids; some have several, and some none.
"""

from typing import Literal

from difftest.cases.block import BlockArguments, Choices, Declared
from difftest.cases.schema import Size
from difftest.cases.sizes import vocabularies, widths


class Arguments(BlockArguments, frozen=True):
    """A table, and how a bag is summed up."""

    vocabulary: Size
    width: Size
    mode: Literal["sum", "mean", "max", "weighted"]

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """The mode `weighted` gives every id of a sum a weight of its own."""
        return {
            "vocabulary": vocabularies(unit),
            "width": widths(unit),
            "mode": ("sum", "mean", "max", "weighted"),
        }

    def declared(self) -> Declared:
        """The table."""
        return Declared(
            parameters={"bags.weight": (self.vocabulary, self.width)},
            inputs=self.width,
            outputs=self.width,
            vocabulary=self.vocabulary,
            positions=True,
            cuts={"bags.weight": (0, 1)},
        )

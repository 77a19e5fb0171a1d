"""A mixture of experts: every row goes to the `top` experts that a router prefers, and theirs are weighted.

`dispatch` says how: `dense` runs every expert on every row and weights most results by 0; `scatter` moves
rows to the experts' slots, of which each has `capacity`, and drops the rows that find none (Switch, GShard).
Rows then compete for slots.
"""

from typing import Literal

from difftest.cases.block import BlockArguments, Choices, Declared, linear
from difftest.cases.schema import Size
from difftest.cases.sizes import widths


class Arguments(BlockArguments, frozen=True):
    """Widths, experts, how many of them a row goes to, and how rows reach them."""

    width: Size
    hidden: Size
    experts: Size
    top: Size
    dispatch: Literal["dense", "scatter"]
    capacity: Size

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """A number of experts that `unit` usually divides."""
        return {
            "width": widths(unit),
            "hidden": (8, 4, 5),
            "experts": (2 * unit, 2 * unit, 4, 3),
            "top": (1, 2),
            "dispatch": ("dense", "scatter"),
            "capacity": (4, 1, 8),
        }

    def declared(self) -> Declared:
        """A router, and two matrices for each expert, cut by experts or by the experts' width."""
        matrices = {
            "rising": (self.experts, self.width, self.hidden),
            "falling": (self.experts, self.hidden, self.width),
        }
        return Declared(
            parameters={**matrices, **linear("router", self.experts, self.width)},
            inputs=self.width,
            outputs=self.width,
            rowwise=self.dispatch == "dense",
            cuts={"rising": (0, 2), "falling": (0, 1)},
        )

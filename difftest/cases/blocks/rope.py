"""Rotary position embeddings: pairs of columns turned by angles that grow with the position (RoFormer).

`form` says how: `real` multiplies by cosines and sines and adds a half that was turned (GPT-NeoX, Llama in
transformers), `complex` multiplies neighbouring columns as complex numbers (Llama as Meta released it). The
angles are a buffer that the `state_dict` leaves out.
"""

from typing import Literal

from difftest.cases.block import BlockArguments, Choices, Declared
from difftest.cases.schema import Positive, Size


class Arguments(BlockArguments, frozen=True):
    """The form of the turn, heads, and the table of angles."""

    form: Literal["real", "complex"]
    heads: Size
    head_dim: Size
    positions: Size
    base: Positive

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """The number of heads is usually a multiple of `unit`, so that an axis can cut it."""
        return {
            "form": ("real", "complex"),
            "heads": (2 * unit, 2 * unit, 3, 1),
            "head_dim": (4, 2, 8),
            "positions": (16, 24),
            "base": (10000, 500),
        }

    def declared(self) -> Declared:
        """A table of cosines and one of sines, or one of both, for every position and pair of columns."""
        half, width = self.head_dim // 2, self.heads * self.head_dim
        tables: dict[str, tuple[int, ...]] = {"turns": (self.positions, half, 2)}
        if self.form == "real":
            tables = {"cosines": (self.positions, 2 * half), "sines": (self.positions, 2 * half)}
        return Declared(parameters={}, inputs=width, outputs=width, held_buffers=tables, positions=True)

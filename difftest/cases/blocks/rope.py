"""Rotary position embeddings: pairs of columns turned by angles that grow with the position (RoFormer)."""

from typing import Literal

from difftest.cases.schema import Positive, Schema, Size


class Arguments(Schema, frozen=True):
    """The form of the turn, heads, and the table of angles."""

    form: Literal["real", "complex"]
    heads: Size
    head_dim: Size
    positions: Size
    base: Positive

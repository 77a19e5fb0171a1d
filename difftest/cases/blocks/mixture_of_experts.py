"""A mixture of experts: every row goes to the `top` experts that a router prefers."""

from typing import Literal

from difftest.cases.schema import Schema, Size


class Arguments(Schema, frozen=True):
    """Widths, experts, how many of them a row goes to, and how rows reach them."""

    width: Size
    hidden: Size
    experts: Size
    top: Size
    dispatch: Literal["dense", "scatter"]
    capacity: Size

"""LSTM and GRU along a sequence, of one or two layers, in one direction or both."""

from typing import Literal

from difftest.cases.schema import Schema, Size


class Arguments(Schema, frozen=True):
    """The cell, its widths, and how layers are put together; `both`: in both directions."""

    cell: Literal["LSTM", "GRU"]
    inputs: Size
    hidden: Size
    layers: Size
    both: bool
    bias: bool

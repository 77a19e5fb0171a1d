"""Bags of embeddings with offsets, as in recommendation models: sums, means or maxima of a table's rows."""

from typing import Literal

from difftest.cases.schema import Schema, Size


class Arguments(Schema, frozen=True):
    """A table, and how a bag is summed up."""

    vocabulary: Size
    width: Size
    mode: Literal["sum", "mean", "max", "weighted"]

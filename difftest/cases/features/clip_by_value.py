"""Gradients clipped element by element."""

from difftest.cases.schema import Positive, Schema


class Options(Schema, frozen=True):
    """The greatest magnitude that an element may have."""

    value: Positive

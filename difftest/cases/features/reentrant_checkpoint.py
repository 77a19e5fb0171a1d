"""Blocks that are computed again by a backward pass within the backward pass."""

from difftest.cases.schema import Schema


class Options(Schema, frozen=True):
    """None."""

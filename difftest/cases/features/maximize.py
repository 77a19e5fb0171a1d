"""Ascent instead of descent."""

from difftest.cases.schema import Schema


class Options(Schema, frozen=True):
    """None."""

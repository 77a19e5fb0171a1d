"""Evaluation between steps."""

from difftest.cases.schema import Schema


class Options(Schema, frozen=True):
    """None."""

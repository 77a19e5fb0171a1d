"""Gradients that are set to zero and not dropped."""

from difftest.cases.schema import Schema


class Options(Schema, frozen=True):
    """None."""

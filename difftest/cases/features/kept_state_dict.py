"""A state dict that is taken once, before the first step, and kept."""

from difftest.cases.schema import Schema


class Options(Schema, frozen=True):
    """None."""

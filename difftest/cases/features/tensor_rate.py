"""A learning rate that is a tensor."""

from difftest.cases.schema import Schema


class Options(Schema, frozen=True):
    """None."""

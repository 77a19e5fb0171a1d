"""An optimizer whose steps can be captured in a graph."""

from difftest.cases.schema import Schema


class Options(Schema, frozen=True):
    """None."""

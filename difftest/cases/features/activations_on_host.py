"""What the backward pass needs is kept on the host."""

from difftest.cases.schema import Schema


class Options(Schema, frozen=True):
    """None."""

"""An optimizer whose state is sharded over replicas."""

from difftest.cases.schema import Schema


class Options(Schema, frozen=True):
    """None."""

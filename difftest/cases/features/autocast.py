"""Operators that compute in bfloat16, by `torch.autocast`."""

from difftest.cases.schema import Schema


class Options(Schema, frozen=True):
    """None."""

"""Grouped-query attention by torch's own function: several query heads share a key head."""

from difftest.cases.schema import Schema, Size


class Arguments(Schema, frozen=True):
    """Heads of keys, and how many of queries each has."""

    width: Size
    key_heads: Size
    group: Size
    head_dim: Size
    causal: bool

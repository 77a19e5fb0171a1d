"""A Linear layer whose weight is a direction times a magnitude for every output (weight normalization)."""

from difftest.cases.schema import Schema, Size


class Arguments(Schema, frozen=True):
    """Widths."""

    inputs: Size
    outputs: Size

"""A Linear layer that is frozen, with a trained correction of low rank beside it (LoRA)."""

from difftest.cases.schema import Positive, Schema, Size


class Arguments(Schema, frozen=True):
    """Widths, the rank, and what the correction is multiplied by."""

    inputs: Size
    outputs: Size
    rank: Size
    alpha: Positive

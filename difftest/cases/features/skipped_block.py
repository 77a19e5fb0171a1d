"""A block that only the last of some forward passes uses."""

from difftest.cases.schema import Schema, Size, TensorName


class Options(Schema, frozen=True):
    """The block, and of how many forward passes each the last uses it."""

    block: TensorName
    parts: Size

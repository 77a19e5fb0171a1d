"""A convolution of every channel by itself, then one over channels, as in MobileNet and Mamba."""

from difftest.cases.schema import Schema, Size


class Arguments(Schema, frozen=True):
    """A kernel that looks back, and how many filters a channel has."""

    width: Size
    kernel: Size
    multiplier: Size

"""One level of a UNet: halved, convolved, normalized by groups, interpolated back, and joined."""

from typing import Literal

from difftest.cases.schema import Schema, Size


class Arguments(Schema, frozen=True):
    """Groups of channels, images of `side` x `side`, and how the smaller one is made larger."""

    groups: Size
    side: Size
    mode: Literal["nearest", "bilinear", "corners"]

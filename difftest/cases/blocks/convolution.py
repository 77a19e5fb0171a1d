"""A convolution over images, batch normalization and pooling, as in a ResNet."""

from typing import Literal

from difftest.cases.schema import Schema, Size


class Arguments(Schema, frozen=True):
    """Images of `side` x `side`, the norm behind the convolution, and the pooling."""

    channels: Size
    filters: Size
    side: Size
    kernel: Size
    norm: Literal["train", "eval", "none"]
    pool: Literal["max", "average", "adaptive"]

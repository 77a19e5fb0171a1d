"""One level of a UNet: halved, convolved, normalized by groups, interpolated back, and joined with the input.

The input and the output are images of `side` x `side` in a row.
"""

from typing import Literal

from difftest.cases.block import BlockArguments, Choices, Declared
from difftest.cases.schema import Size


class Arguments(BlockArguments, frozen=True):
    """Groups of channels, images of `side` x `side`, and how the smaller one is made larger."""

    groups: Size
    side: Size
    mode: Literal["nearest", "bilinear", "corners"]

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """Channels are in groups of two."""
        return {
            "groups": (2 * unit, 2, 1),
            "side": (4, 6),
            "mode": ("nearest", "bilinear", "corners"),
        }

    def declared(self) -> Declared:
        """Two kernels with biases, and the norm's scale and shift."""
        channels = 2 * self.groups
        inner: dict[str, tuple[int, ...]] = {
            "inner.weight": (channels, channels, 3, 3),
            "inner.bias": (channels,),
        }
        norm = {"norm.weight": (channels,), "norm.bias": (channels,)}
        joined = {"joined.weight": (channels, 2 * channels, 1, 1), "joined.bias": (channels,)}
        width = channels * self.side * self.side
        cuts = {"inner.weight": (0, 1), "joined.weight": (0, 1)}
        return Declared(parameters={**inner, **norm, **joined}, inputs=width, outputs=width, cuts=cuts)

"""A convolution over images, batch normalization and pooling, as in a ResNet.

The input is an image of `channels` x `side` x `side` in a row, the output the pooled image in a row.
"""

from typing import Literal

from difftest.cases.block import BlockArguments, Choices, Declared
from difftest.cases.schema import Size


class Arguments(BlockArguments, frozen=True):
    """Images of `side` x `side`, the norm behind the convolution, and the pooling."""

    channels: Size
    filters: Size
    side: Size
    kernel: Size
    norm: Literal["train", "eval", "none"]
    pool: Literal["max", "average", "adaptive"]

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """The side is even, so that pooling takes all."""
        return {
            "channels": (unit, unit, 1, 3),
            "filters": (2 * unit, 2 * unit, 3, 4),
            "side": (4, 6),
            "kernel": (3, 1),
            "norm": ("train", "eval", "none"),
            "pool": ("max", "average", "adaptive"),
        }

    def declared(self) -> Declared:
        """A kernel, and the norm's parameters and buffers."""
        filters, side = self.filters, self.side
        parameters: dict[str, tuple[int, ...]] = {
            "conv.weight": (filters, self.channels, self.kernel, self.kernel)
        }
        buffers: dict[str, tuple[int, ...]] = {}
        if self.norm == "none":
            parameters["conv.bias"] = (filters,)
        else:
            parameters |= {"norm.weight": (filters,), "norm.bias": (filters,)}
            buffers = {"norm.running_mean": (filters,), "norm.running_var": (filters,)}
            buffers["norm.num_batches_tracked"] = ()
        pooled = 1 if self.pool == "adaptive" else side // 2
        return Declared(
            parameters=parameters,
            inputs=self.channels * side * side,
            outputs=filters * pooled * pooled,
            held_buffers=buffers,
            counters=("norm.num_batches_tracked",) if buffers else (),
            rowwise=self.norm != "train",
            cuts={"conv.weight": (0, 1)},
        )

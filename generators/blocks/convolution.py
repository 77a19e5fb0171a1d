"""A convolution over images, batch normalization and pooling, as in a ResNet.

The input is an image of `channels` x `side` x `side` in a row, the output the pooled image in a row.
"""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, size
from generators.chances import equally, weighted

WEIGHT = 2


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """`norm` is in training, in evaluation, or absent; the side is even, so that pooling takes all."""
    return st.fixed_dictionaries(
        {
            "channels": weighted((2, unit), (1, 1), (1, 3)),
            "filters": weighted((2, 2 * unit), (1, 3), (1, 4)),
            "side": equally(4, 6),
            "kernel": equally(3, 1),
            "norm": equally("train", "eval", "none"),
            "pool": equally("max", "average", "adaptive"),
        }
    )


def declared(arguments: Arguments) -> Declared:
    """A kernel, and the norm's parameters and buffers."""
    channels, filters, side, kernel = (size(arguments, n) for n in ("channels", "filters", "side", "kernel"))
    parameters: dict[str, tuple[int, ...]] = {"conv.weight": (filters, channels, kernel, kernel)}
    buffers: dict[str, tuple[int, ...]] = {}
    if arguments["norm"] == "none":
        parameters["conv.bias"] = (filters,)
    else:
        parameters |= {"norm.weight": (filters,), "norm.bias": (filters,)}
        buffers = {"norm.running_mean": (filters,), "norm.running_var": (filters,)}
        buffers["norm.num_batches_tracked"] = ()
    pooled = 1 if arguments["pool"] == "adaptive" else side // 2
    return Declared(
        parameters=parameters,
        inputs=channels * side * side,
        outputs=filters * pooled * pooled,
        held_buffers=buffers,
        counters=("norm.num_batches_tracked",) if buffers else (),
        rowwise=arguments["norm"] != "train",
        cuts={"conv.weight": (0, 1)},
    )

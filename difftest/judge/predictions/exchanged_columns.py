"""A padded convolution takes the columns beside an image from the images of the ranks before and after.

That is right where ranks have parts of one image. Where each has images of its own, the first and the last
rank alone are padded, at one side. Norms and other pools than the adaptive one have no rule in the releases
with the fault.
"""

from collections.abc import Mapping

import numpy as np

from difftest.cases.layers.building_block import BuildingBlock
from difftest.judge.measured import Floats, Key, MeasuredRun
from difftest.judge.outcome import Array
from difftest.judge.predictions import _outputs


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether an output or the loss is what exchanged columns give."""

    def layer(block: BuildingBlock, own: Mapping[str, Floats], inputs: Array) -> Floats | None:
        channels, width = block.parameters["conv.weight"][1], block.parameters["conv.weight"][3] // 2
        side = int(block.arguments["side"])
        if (block.arguments["norm"], block.arguments["pool"]) != ("none", "adaptive") or not width:
            return None
        shards = _outputs.shards(run, inputs.reshape(-1, channels, side, side))
        if len({images.shape for images in shards}) > 1:
            return None
        padded = _with_columns(shards, width)
        whole = np.empty((len(inputs), block.parameters["conv.weight"][0], side, side))
        for place, images in zip(_outputs.places(run, whole), padded, strict=True):
            whole[place] = _convolved(images, own["conv.weight"], width)
        return np.asarray(np.maximum(whole + own["conv.bias"][:, None, None], 0.0).mean(axis=(2, 3)))

    return _outputs.predicted(run, at, "convolution", layer)


def _with_columns(shards: list[Array], width: int) -> list[Floats]:
    """The images of each rank, with `width` columns at either side: of a neighbour's, or zeros."""
    none = np.zeros_like(shards[0][..., :width])
    before = [none, *(images[..., -width:] for images in shards[:-1])]
    after = [*(images[..., :width] for images in shards[1:]), none]
    return [np.concatenate(each, axis=-1) for each in zip(before, shards, after, strict=True)]


def _convolved(images: Floats, kernel: Floats, width: int) -> Floats:
    """A convolution of images that have their columns, padded by `width` zero rows."""
    padded = np.pad(images, ((0, 0), (0, 0), (width, width), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape[2:], axis=(2, 3))
    return np.asarray(np.einsum("nchwij,fcij->nfhw", windows, kernel))

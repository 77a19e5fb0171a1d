"""A mean cross entropy is the mean of the ranks' means, each over the targets that the rank has.

Targets that are ignored, or have other weights, are then divided by the wrong sum. Label smoothing has no
rule in the releases with the fault.
"""

from collections.abc import Mapping

import numpy as np

from difftest.cases.layers.building_block import BuildingBlock
from difftest.judge.measured import Floats, Key, MeasuredRun
from difftest.judge.outcome import Array
from difftest.judge.predictions import _outputs

IGNORED = 0
"""The class whose targets the block ignores."""


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether an output or the loss is what a mean of means gives."""

    def layer(block: BuildingBlock, own: Mapping[str, Floats], ids: Array) -> Floats | None:
        classes = block.parameters["logits.weight"][1]
        options = block.arguments
        if options["reduction"] != "mean" or options["smoothing"]:
            return None
        logs, targets = _outputs.log_softmax(own["logits.weight"][ids]), (ids * 3 + 1) % classes
        weights = np.arange(1, classes + 1) / 4 if options["weighted"] else np.ones(classes)
        counted = (targets != IGNORED) if options["ignored"] else np.ones(targets.shape, np.bool_)
        chosen = np.take_along_axis(logs, targets[..., None], -1)[..., 0]
        weighed = weights[targets] * counted
        by_rank = zip(*(_outputs.shards(run, one) for one in (-chosen * weighed, weighed)), strict=True)
        means = float(np.mean([total.sum() / share.sum() for total, share in by_rank]))
        return np.full((*ids.shape, 1), means)

    return _outputs.predicted(run, at, "cross_entropy", layer)
